package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/source"
)

// vector is a schema with instances on which validators agree.
type vector struct {
	Name           string
	Schema         json.RawMessage
	Valid, Invalid []json.RawMessage
}

func vectors(t testing.TB) []vector {
	t.Helper()
	folder := os.Getenv("INGOT_VECTORS")
	if folder == "" {
		t.Skip("INGOT_VECTORS is not set")
	}
	files, err := filepath.Glob(filepath.Join(folder, "json-schema", "*.json"))
	require.NoError(t, err)
	var list []vector
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		var v vector
		require.NoError(t, json.Unmarshal(data, &v))
		v.Name = filepath.Base(f)
		list = append(list, v)
	}
	if len(list) == 0 {
		t.Skip("INGOT_VECTORS has no json-schema")
	}
	return list
}

func newBuilder() *regex.Builder {
	return regex.NewBuilder(regex.Limits{Nodes: 200_000, Work: 1_000_000})
}

// TestVectors checks what each schema allows, value by value, and lists the schemas that are
// refused by keyword: at most 5 % may be.
func TestVectors(t *testing.T) {
	list := vectors(t)
	refused := map[string][]string{}
	count := 0
	for _, v := range list {
		s, root, err := New(newBuilder(), string(v.Schema))
		if err == nil {
			err = s.expandAll(root)
		}
		if err != nil {
			var at *source.Error
			require.ErrorAs(t, err, &at, v.Name)
			require.NotEmpty(t, at.Path, "%s: %v", v.Name, err)
			keyword := at.Path[slices.Index(append([]byte(nil), at.Path...), '/'):]
			keyword = filepath.Base(keyword)
			refused[keyword] = append(refused[keyword], v.Name+": "+err.Error())
			count++
			continue
		}
		for _, x := range v.Valid {
			value, err := decode(string(x))
			require.NoError(t, err)
			_, ok := s.arrange(root, value, false)
			assert.True(t, ok, "%s: valid %s", v.Name, x)
		}
		for _, x := range v.Invalid {
			value, err := decode(string(x))
			require.NoError(t, err)
			_, ok := s.arrange(root, value, false)
			assert.False(t, ok, "%s: invalid %s", v.Name, x)
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("refused at %s: %d", keyword, len(refused[keyword]))
		for _, r := range refused[keyword] {
			t.Log("  ", r)
		}
	}
	t.Logf("%d of %d schemas are refused", count, len(list))
	assert.LessOrEqual(t, count*20, len(list))
}

// expandAll expands all values that v reaches.
func (s *Schema) expandAll(v Value) error {
	seen := map[Value]bool{}
	pending := []Value{v}
	for len(pending) > 0 {
		v := pending[0]
		pending = pending[1:]
		if seen[v] {
			continue
		}
		seen[v] = true
		set, err := s.Expand(v)
		if err != nil {
			return err
		}
		for _, a := range set.Arrays {
			pending = append(append(pending, a.Prefix...), a.Rest)
			for _, some := range a.Some {
				pending = append(pending, some.Value)
			}
		}
		for _, o := range set.Objects {
			for _, m := range o.Members {
				pending = append(pending, m.Value)
			}
			for _, c := range append(slices.Clone(o.Classes), o.Some...) {
				pending = append(pending, c.Value)
			}
		}
	}
	return errors.Join(s.re.Err())
}
