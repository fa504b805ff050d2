package grammar

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/internal/ordered"
)

// vector is a schema with instances on which validators agree.
type vector struct {
	Name   string
	Schema json.RawMessage
	Valid  []json.RawMessage
}

func vectorFolder(t testing.TB) string {
	folder := os.Getenv("INGOT_VECTORS")
	if folder == "" {
		t.Skip("INGOT_VECTORS is not set")
	}
	return folder
}

func schemaVectors(t testing.TB) []vector {
	files, err := filepath.Glob(filepath.Join(vectorFolder(t), "json-schema", "*.json"))
	require.NoError(t, err)
	var list []vector
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		var v vector
		require.NoError(t, json.Unmarshal(data, &v))
		list = append(list, v)
	}
	if len(list) == 0 {
		t.Skip("INGOT_VECTORS has no json-schema")
	}
	return list
}

// loadTokenizer returns the tokenizer of a GGUF file, and its vocabulary. Tokens from id limit on
// are left out; 0 is no limit.
func loadTokenizer(t testing.TB, path string, limit int) (*tokenizer.Tokenizer, *Vocabulary) {
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f.Meta())
	require.NoError(t, err)
	size := tok.Size()
	if limit > 0 && limit < size {
		size = limit
	}
	return tok, NewVocabulary(size, tok.Bytes, func(id int32) string {
		if len(tok.Bytes(id)) == 0 {
			return tok.Token(id)
		}
		return ""
	}, tok.StopIDs())
}

// split splits text into the longest tokens of v, from the left. Every vocabulary that has all
// single bytes can do it.
func (v *Vocabulary) split(text string) []int32 {
	var ids []int32
	for len(text) > 0 {
		id, length := int32(-1), 0
		for _, t := range [...]trie{v.plain, v.rest} {
			n := 0
			for i := range len(text) {
				if n = t.child(n, text[i]); n < 0 {
					break
				}
				if token := t[n].token(); token >= 0 && i+1 > length {
					id, length = token, i+1
				}
			}
		}
		if length == 0 {
			return nil
		}
		ids = append(ids, id)
		text = text[length:]
	}
	return ids
}

// arranged writes a JSON value without white space, with the properties of objects in the order of
// the schema, as far as plain schemas say it.
func arranged(t testing.TB, schema json.RawMessage, value json.RawMessage) string {
	root, err := ordered.ParseJSON(schema)
	require.NoError(t, err)
	v, err := ordered.ParseJSON(value)
	require.NoError(t, err)
	var b strings.Builder
	a := arranger{root: root, out: &b}
	a.write(root, v, 0)
	return b.String()
}

type arranger struct {
	root ordered.Value
	out  *strings.Builder
}

func (a *arranger) resolve(s ordered.Value, depth int) *ordered.Object {
	o, ok := s.(*ordered.Object)
	if !ok || depth > 20 {
		return ordered.NewObject()
	}
	ref, ok := get(o, "$ref").(string)
	if !ok || !strings.HasPrefix(ref, "#") {
		return o
	}
	at := a.root
	for _, name := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if name == "" {
			continue
		}
		next, ok := at.(*ordered.Object)
		if !ok {
			return o
		}
		at = get(next, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return a.resolve(at, depth+1)
}

func get(o *ordered.Object, name string) ordered.Value {
	v, _ := o.Get(name)
	return v
}

// properties appends the names of a schema's properties, in order, and those of its parts.
func (a *arranger) properties(s ordered.Value, into *ordered.Object, depth int) {
	o := a.resolve(s, 0)
	if p, ok := get(o, "properties").(*ordered.Object); ok {
		for _, k := range p.Keys() {
			if _, ok := into.Get(k); !ok {
				into.Set(k, get(p, k))
			}
		}
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		if list, ok := get(o, word).([]ordered.Value); ok && depth < 8 {
			for _, part := range list {
				a.properties(part, into, depth+1)
			}
		}
	}
}

func (a *arranger) write(s, v ordered.Value, depth int) {
	switch v := v.(type) {
	case *ordered.Object:
		known := ordered.NewObject()
		a.properties(s, known, 0)
		keys := slices.Clone(v.Keys())
		place := func(k string) int {
			if i := slices.Index(known.Keys(), k); i >= 0 {
				return i
			}
			return len(known.Keys())
		}
		slices.SortStableFunc(keys, func(x, y string) int { return cmp.Compare(place(x), place(y)) })
		a.out.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				a.out.WriteByte(',')
			}
			a.scalar(k)
			a.out.WriteByte(':')
			child := get(known, k)
			if child == nil {
				child = get(a.resolve(s, 0), "additionalProperties")
			}
			a.write(child, get(v, k), depth+1)
		}
		a.out.WriteByte('}')
	case []ordered.Value:
		items := get(a.resolve(s, 0), "items")
		a.out.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				a.out.WriteByte(',')
			}
			a.write(items, x, depth+1)
		}
		a.out.WriteByte(']')
	default:
		a.scalar(v)
	}
}

func (a *arranger) scalar(v any) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	a.out.WriteString(strings.TrimSuffix(b.String(), "\n"))
}
