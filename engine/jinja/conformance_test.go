package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// conformance is the content of testdata/conformance.json, which testdata/conformance.py writes. It
// has the results of Python's jinja2 for small templates that cover every filter, test, operator
// and rule.
type conformance struct {
	Context json.RawMessage
	Times   []struct {
		Time        time.Time
		Format, Out string
	}
	Cases []struct {
		Group, Template string
		Out, Err        *string
	}
}

func readConformance(t testing.TB) (table conformance, ctx *ordered.Object) {
	t.Helper()
	data, err := os.ReadFile("testdata/conformance.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &table))
	require.Greater(t, len(table.Cases), 1000)
	v, err := ordered.ParseJSON(table.Context)
	require.NoError(t, err)
	return table, v.(*ordered.Object)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	table, ctx := readConformance(t)
	before := mustRepr(t, ctx)
	now := time.Date(2026, 1, 2, 15, 4, 5, 678901000, time.UTC)
	for i, c := range table.Cases {
		t.Run(fmt.Sprintf("%s/%d", c.Group, i), func(t *testing.T) {
			var got string
			parse := Parse
			if c.Group == "strict" {
				parse = func(name, source string) (*Template, error) { return ParseStrict(name, "templates", source) }
			}
			tmpl, err := parse("case", c.Template)
			if err == nil {
				got, err = tmpl.Render(ctx, now)
			}
			if c.Out != nil {
				require.NoError(t, err, c.Template)
				require.Equal(t, *c.Out, got, c.Template)
				return
			}
			require.Error(t, err, "%s\nrendered %q, but jinja2 fails with %s", c.Template, got, *c.Err)
			message, raised := strings.CutPrefix(*c.Err, "TemplateError: ")
			var refusal *RaiseError
			require.Equal(t, raised, errors.As(err, &refusal), *c.Err)
			if raised {
				require.Equal(t, message, refusal.Message)
			}
		})
	}
	require.Equal(t, before, mustRepr(t, ctx), "rendering changed the context")
}

func TestStrftime(t *testing.T) {
	t.Parallel()
	table, _ := readConformance(t)
	require.NotEmpty(t, table.Times)
	for _, c := range table.Times {
		got, err := strftime(c.Time, c.Format)
		require.NoError(t, err)
		require.Equal(t, c.Out, got, "%s of %s", c.Format, c.Time)
	}
}

func mustRepr(t testing.TB, v Value) string {
	t.Helper()
	return newRender(&Template{}, ordered.NewObject(), time.Time{}).repr(v)
}
