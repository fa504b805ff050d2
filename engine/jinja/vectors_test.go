package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// vectorsNow is the time at which the recorded prompts were rendered.
var vectorsNow = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// TestTemplates renders small templates with the constructs of published templates.
// testdata/templates/render.py made the expected prompts with jinja2.
func TestTemplates(t *testing.T) {
	t.Parallel()
	renderAll(t, filepath.Join("testdata", "templates"))
}

// TestModelTemplates renders the templates of real models and compares the prompts with those of
// Python's jinja2.
func TestModelTemplates(t *testing.T) {
	t.Parallel()
	root := os.Getenv("INGOT_VECTORS")
	if root == "" {
		t.Skip("the templates of published models are not tested: set INGOT_VECTORS to the folder that has templates/")
	}
	renderAll(t, filepath.Join(root, "templates"))
}

// renderAll renders every template in a folder with every case.
func renderAll(t *testing.T, dir string) {
	t.Helper()
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, into))
	}
	var cases map[string]json.RawMessage
	read("cases.json", &cases)
	var expected map[string]map[string]struct{ Out, Err *string }
	read("expected.json", &expected)
	require.NotEmpty(t, expected)
	for file, byCase := range expected {
		t.Run(strings.TrimSuffix(file, ".jinja"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			tmpl, err := Parse(file, string(source))
			require.NoError(t, err)
			for name, want := range byCase {
				before := string(cases[name])
				ctx, err := ordered.ParseJSON(cases[name])
				require.NoError(t, err)
				got, err := tmpl.Render(ctx.(*ordered.Object), vectorsNow)
				if want.Out == nil {
					require.Error(t, err, "%s: rendering must fail, because jinja2 fails with %s", name, *want.Err)
					continue
				}
				require.NoError(t, err, name)
				require.Equal(t, *want.Out, got, name)
				require.Equal(t, before, string(cases[name]))
			}
		})
	}
}
