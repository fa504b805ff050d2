package grammar

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// TestMultiplesAreWithinBudget shows that a divisor is refused with its path when the schema is
// compiled, or its numbers can be written to their end.
func TestMultiplesAreWithinBudget(t *testing.T) {
	tokens := []string{"-", ".", "-1", ".5", "</s>"}
	for length := 1; length <= 3; length++ {
		for x := range []int{10, 100, 1000}[length-1] {
			tokens = append(tokens, fmt.Sprintf("%0*d", length, x))
		}
	}
	v := NewVocabulary(len(tokens), func(id int32) []byte {
		if tokens[id] == "</s>" {
			return nil
		}
		return []byte(tokens[id])
	}, func(int32) string { return "" }, []int32{4})
	random := rand.New(rand.NewPCG(1, 2))
	kept := 0
	for _, divisor := range []string{"9973", "10000", "9.973", "0.997", "9.7"} {
		for _, bounds := range []string{
			``, `,"minimum":0,"maximum":1000000000`, `,"maximum":100000`, `,"minimum":1000000000000000000,"maximum":9000000000000000000`,
			`,"exclusiveMinimum":-12345.678,"maximum":98765432.1`, `,"minimum":1e30`, `,"minimum":0,"maximum":9999`,
			`,"allOf":[{"minimum":0},{"maximum":1e9}]`, `,"allOf":[{"multipleOf":9967},{"multipleOf":4}]`,
		} {
			for _, kind := range []string{"number", "integer"} {
				schema := `{"type":"` + kind + `","multipleOf":` + divisor + bounds + `}`
				c := &generation.Constraint{Schema: schema}
				g, err := NewCompiler(v, Limits{}).Compile(t.Context(), c)
				if err != nil {
					var refused *Error
					require.ErrorAs(t, err, &refused, schema)
					assert.NotEmpty(t, refused.Path, "%s: %v", schema, err)
					require.Error(t, Check(c), schema)
					continue
				}
				kept++
				m := g.NewMatcher()
				mask := make([]uint32, v.words())
				var text strings.Builder
				for n := 0; n < 14 && !isDone(t, m); n++ {
					require.NoError(t, m.Mask(mask), "%s after %s", schema, text.String())
					var allowed []int32
					for id := range tokens {
						if mask[id>>5]>>(id&31)&1 != 0 {
							allowed = append(allowed, int32(id))
						}
					}
					require.NotEmpty(t, allowed, "%s after %s", schema, text.String())
					id := allowed[random.IntN(len(allowed))]
					if tokens[id] == "</s>" {
						break
					}
					text.WriteString(tokens[id])
					require.NoError(t, m.Accept(id), schema)
				}
				if d, err := strconv.Atoi(divisor); err == nil && m.Accepting() && len(text.String()) < 18 && !strings.Contains(text.String(), ".") {
					x, err := strconv.Atoi(text.String())
					require.NoError(t, err)
					assert.Zero(t, x%d, "%s: %s", schema, text.String())
				}
			}
		}
	}
	assert.Greater(t, kept, 50)
}
