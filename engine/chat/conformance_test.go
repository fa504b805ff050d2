package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConformance renders small templates of every filter, test, operator and rule, and compares with what Python's
// jinja2 makes of them. testdata/conformance.py writes the table.
func TestConformance(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/conformance.json")
	require.NoError(t, err)
	var table struct {
		Context json.RawMessage
		Cases   []struct {
			Group, Template string
			Out, Err        *string
		}
	}
	require.NoError(t, json.Unmarshal(data, &table))
	require.Greater(t, len(table.Cases), 500)
	context, err := ParseJSON(table.Context)
	require.NoError(t, err)
	before := fmt.Sprint(mustRepr(t, context))
	now := time.Date(2026, 1, 2, 15, 4, 5, 678901000, time.UTC)
	for i, c := range table.Cases {
		t.Run(fmt.Sprintf("%s/%d", c.Group, i), func(t *testing.T) {
			got, err := "", error(nil)
			tmpl, err := Parse("case", c.Template)
			if err == nil {
				got, err = tmpl.Render(context.(*Object), now)
			}
			if c.Out == nil {
				require.Error(t, err, "%s\nrendered %q, jinja2 fails with %s", c.Template, got, *c.Err)
				message, raised := strings.CutPrefix(*c.Err, "TemplateError: ")
				var refusal *RaiseError
				require.Equal(t, raised, errors.As(err, &refusal), *c.Err)
				if raised {
					require.Equal(t, message, refusal.Message)
				}
				return
			}
			require.NoError(t, err, c.Template)
			require.Equal(t, *c.Out, got, c.Template)
		})
	}
	require.Equal(t, before, mustRepr(t, context), "rendering changed the context")
}

func mustRepr(t *testing.T, v Value) string {
	t.Helper()
	s, err := newRender(&Template{}, NewObject(), time.Time{}).repr(v)
	require.NoError(t, err)
	return s
}
