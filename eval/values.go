package eval

import (
	"encoding/json"
	"math"
)

// Values are scores by their names. A score can be NaN, as in the harness, for which JSON has no
// number: it is null in files. Infinite scores are those of the largest size.
type Values map[string]float64

// MarshalJSON writes NaN as null.
func (v Values) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	list := make(map[string]*float64, len(v))
	for name, x := range v {
		if list[name] = nil; !math.IsNaN(x) {
			list[name] = new(max(-maxScore, min(x, maxScore)))
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads null as NaN.
func (v *Values) UnmarshalJSON(text []byte) error {
	var list map[string]*float64
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return err
	}
	*v = make(Values, len(list))
	for name, x := range list {
		(*v)[name] = math.NaN()
		if x != nil {
			(*v)[name] = *x
		}
	}
	return nil
}

// isNumber reports whether a score is a finite number.
func isNumber(x float64) bool { return math.Abs(x) < maxScore }

// maxScore is the maximum of a stored score. A perplexity can be infinite, for which JSON has no
// number. It is below the largest number, so that sums and charts do not become infinite again.
const maxScore = 1e300
