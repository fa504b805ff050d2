package rows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
)

// TestRowsWithAForm: a row whose form cannot be kept is an error that names field and keyword, also
// if unknown fields are ignored. Other rows keep their bodies.
func TestRowsWithAForm(t *testing.T) {
	t.Parallel()
	row := func(form string) string {
		return `{"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + form + "}}}\n"
	}
	good, bad := `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`
	for _, ignore := range []bool{false, true} {
		r := NewReader(strings.NewReader(row(good)+row(bad)+row(good)+row(bad)), Options{IgnoreUnknown: ignore})
		for i := range 4 {
			got, err := r.Next()
			require.NoError(t, err)
			if i%2 == 0 {
				require.Nil(t, got.Err)
				require.Contains(t, string(got.Body), good)
				continue
			}
			require.Equal(t, openai.CodeInvalidValue, got.Err.Code)
			require.Equal(t, "response_format.json_schema.schema", got.Err.Param)
			require.Contains(t, got.Err.Message, `"response_format.json_schema.schema" cannot be kept: /properties/a/uniqueItems: `)
			require.Empty(t, got.Body)
		}
		require.Len(t, r.forms.checked, 2, "each form is checked once")
	}
}

func TestFormsAreBounded(t *testing.T) {
	t.Parallel()
	var f forms
	for i := range maxForms + 10 {
		require.NoError(t, f.check(&generation.Constraint{Choices: []string{fmt.Sprint(i)}}))
		require.LessOrEqual(t, len(f.checked), maxForms)
	}
	require.Len(t, f.checked, 10)
}
