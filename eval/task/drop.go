package task

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/jinja"
	"github.com/ingot-run/ingot/internal/ordered"
)

// dropMetrics are the metrics of DROP: whether the answer has the spans of a right one, and the
// share of their words.
var dropMetrics = map[string]string{"em": "mean", "f1": "mean"}

// dropRow adds the column answers: the right answers, each a list of spans.
func dropRow(row *ordered.Object) (*ordered.Object, error) {
	answer, ok := columnObject(row, "answer")
	others, both := columnObject(row, "validated_answers")
	if !ok || !both {
		return nil, errors.New(`column "answer" or "validated_answers" is missing or not an object`)
	}
	candidates := []*ordered.Object{answer}
	numbers, err := columnList(others, "number")
	if err != nil {
		return nil, fmt.Errorf("validated_answers: %w", err)
	}
	for i := range numbers {
		each := ordered.NewObject()
		for _, name := range []string{"number", "date", "spans"} {
			list, err := columnList(others, name)
			if err != nil || i >= len(list) {
				return nil, fmt.Errorf("validated_answers: column %q needs %d elements", name, len(numbers))
			}
			each.Set(name, list[i])
		}
		candidates = append(candidates, each)
	}
	var answers []ordered.Value
	seen := map[string]bool{}
	for _, c := range candidates {
		spans := dropSpans(c)
		if key := fmt.Sprintf("%q", spans); !seen[key] {
			seen[key] = true
			answers = append(answers, spans)
		}
	}
	made := row.Clone()
	made.Set("answers", answers)
	if id, ok := row.Get("query_id"); ok {
		made.Set("id", id)
	}
	return made, nil
}

func columnObject(row *ordered.Object, name string) (*ordered.Object, bool) {
	v, _ := row.Get(name)
	o, ok := v.(*ordered.Object)
	return o, ok
}

// dropSpans returns an answer of the data set as spans: its number, its texts, or its date.
func dropSpans(answer *ordered.Object) []ordered.Value {
	if number, _ := answer.Get("number"); number != "" {
		return []ordered.Value{jinja.Str(number)}
	}
	if spans, err := columnList(answer, "spans"); err == nil && len(spans) > 0 {
		return spans
	}
	date, _ := columnObject(answer, "date")
	var parts []string
	for _, name := range []string{"day", "month", "year"} {
		if date != nil {
			part, _ := date.Get(name)
			parts = append(parts, jinja.Str(part))
		}
	}
	return []ordered.Value{strings.TrimSpace(strings.Join(parts, " "))}
}

// dropScore scores an answer by the right answer that is nearest.
func dropScore(row *ordered.Object, r Response) (Scores, error) {
	answers, err := columnList(row, "answers")
	if err != nil {
		return Scores{}, err
	}
	given := dropNormal(r.Answer())
	scores := map[string]float64{"em": 0, "f1": 0}
	for _, a := range answers {
		list, _ := a.([]ordered.Value)
		if len(list) == 0 || strings.TrimSpace(textOf(list[0])) == "" {
			continue
		}
		exact := len(list) == 1
		best := 0.0
		for _, span := range list {
			right := dropNormal(textOf(span))
			exact = exact && right == given
			best = max(best, dropF1(strings.Fields(given), strings.Fields(right)))
		}
		scores["em"] = max(scores["em"], indicator(exact))
		scores["f1"] = max(scores["f1"], math.RoundToEven(100*best/float64(len(list)))/100)
	}
	return Scores{Values: scores}, nil
}

// dropF1 is the F-score of two sets of words; it is 0 if numbers of the right one are missing.
func dropF1(given, right []string) float64 {
	a, b := set(given), set(right)
	common, numbers, found := 0.0, false, false
	for w := range b {
		both := a[w]
		common += indicator(both)
		if pythonFloat.MatchString(w) {
			numbers, found = true, found || both
		}
	}
	if numbers && !found {
		return 0
	}
	precision, recall := 1.0, 1.0
	if len(a) > 0 {
		precision = common / float64(len(a))
	}
	if len(b) > 0 {
		recall = common / float64(len(b))
	}
	if precision+recall == 0 {
		return 0
	}
	return 2 * precision * recall / (precision + recall)
}

func set(words []string) map[string]bool {
	all := map[string]bool{}
	for _, w := range words {
		all[w] = true
	}
	return all
}

var (
	dropSeparators = regexp.MustCompile(`[ -]`)
	articles       = regexp.MustCompile(`\b(a|an|the)\b`)
	// pythonFloat matches what Python's float reads.
	pythonFloat = regexp.MustCompile(`(?i)^\s*[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?(e[+-]?\d+)?|\.\d+(_\d+)*(e[+-]?\d+)?|inf(inity)?|nan)\s*$`)
)

// dropNormal returns a span without case, articles and punctuation, and with numbers as Python
// writes them.
func dropNormal(span string) string {
	tokens := dropSeparators.Split(span, -1)
	for i, t := range tokens {
		t = strings.ToLower(t)
		if !pythonFloat.MatchString(t) {
			t = without(t, punctuation)
		}
		if pythonFloat.MatchString(t) {
			number, _ := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(t), "_", ""), 64)
			t = jinja.Str(number)
		}
		tokens[i] = strings.Join(strings.Fields(articles.ReplaceAllString(t, " ")), " ")
	}
	return strings.Join(slices.DeleteFunc(tokens, func(t string) bool { return t == "" }), " ")
}
