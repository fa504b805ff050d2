package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// pieces are tokens of more than one byte. The other tokens are the 256 bytes.
var pieces = []string{`{"`, `":`, `","`, `":"`, `"}`, `"]`, `[{"`, `}]`, `}}`, `true`, `null`, `12`, `0.5`, `-1`, `é`, `日本`, "name", "type", "id", `\n`, `\u00`}

const end = 256

func vocabulary() *grammar.Vocabulary {
	return grammar.NewVocabulary(end+1+len(pieces), func(id int32) []byte {
		switch {
		case id < end:
			return []byte{byte(id)}
		case id > end:
			return []byte(pieces[id-end-1])
		}
		return nil
	}, func(id int32) string {
		if id == end {
			return "<end>"
		}
		return ""
	}, []int32{end})
}

func bytesOf(id int32) string {
	if id < end {
		return string([]byte{byte(id)})
	}
	return pieces[id-end-1]
}

// ecma is a regular expression of ECMAScript.
type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return err == nil && ok
}

// validator returns an independent validator of a schema.
func validator(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		re, err := regexp2.Compile(s, regexp2.ECMAScript|regexp2.Unicode)
		return ecma{re}, err
	})
	require.NoError(t, c.AddResource("schema.json", value))
	v, err := c.Compile("schema.json")
	require.NoError(t, err, text)
	return v
}

// walk generates a text by drawing tokens among those that the mask allows. After some tokens it
// prefers those that bring it to an end. It reports whether the text came to one.
func walk(t testing.TB, g *grammar.Grammar, random *rand.Rand, free, limit int) (string, bool) {
	t.Helper()
	m := g.NewMatcher()
	mask := make([]uint32, (end+1+len(pieces)+31)/32)
	var text strings.Builder
	for step := range limit {
		require.NoError(t, m.Mask(mask), "after %q", text.String())
		var allowed []int32
		for id := range int32(end + 1 + len(pieces)) {
			if mask[id/32]>>(id%32)&1 != 0 {
				allowed = append(allowed, id)
			}
		}
		require.NotEmpty(t, allowed, "nothing may follow %q", text.String())
		id := allowed[random.IntN(len(allowed))]
		if step > free {
			id = closing(mask, id, text.String())
		}
		require.NoError(t, m.Accept(id), "after %q", text.String())
		if id == end {
			return text.String(), true
		}
		text.WriteString(bytesOf(id))
	}
	return text.String(), false
}

// closing returns a token that brings a text to an end, if there is one.
func closing(mask []uint32, otherwise int32, text string) int32 {
	within := false // a string
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			within = !within
		case within && text[i] == '\\':
			i++
		}
	}
	list := []int32{end, '}', ']', '"', ':', '0'}
	if within {
		list = []int32{'"'}
	}
	for _, id := range list {
		if mask[id/32]>>(id%32)&1 != 0 {
			return id
		}
	}
	return otherwise
}

type file struct {
	name           string
	Schema         json.RawMessage
	Valid, Invalid []json.RawMessage
}

func files(t testing.TB) []file {
	t.Helper()
	folder := os.Getenv("INGOT_VECTORS")
	if folder == "" {
		t.Skip("INGOT_VECTORS is not set")
	}
	names, err := filepath.Glob(filepath.Join(folder, "json-schema", "*.json"))
	require.NoError(t, err)
	var list []file
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		f := file{name: filepath.Base(name)}
		require.NoError(t, json.Unmarshal(data, &f))
		list = append(list, f)
	}
	if len(list) == 0 {
		t.Skip("INGOT_VECTORS has no json-schema")
	}
	return list
}

// accepts reports whether the grammar has a text, token by token, with tokens drawn at random.
func accepts(g *grammar.Grammar, random *rand.Rand, text string) (rest string, ok bool) {
	m := g.NewMatcher()
	for text != "" {
		var fits []int32
		for i, p := range pieces {
			if strings.HasPrefix(text, p) {
				fits = append(fits, int32(end+1+i))
			}
		}
		id := int32(text[0])
		if len(fits) > 0 && random.IntN(4) > 0 {
			id = fits[random.IntN(len(fits))]
		}
		if m.Accept(id) != nil {
			return text, false
		}
		text = text[len(bytesOf(id)):]
	}
	return "", m.Accepting()
}

// TestInstances accepts every valid instance, written in the order of the schema's properties with
// or without spaces, and no invalid one, in its own order or arranged as far as it fits.
func TestInstances(t *testing.T) {
	c := grammar.NewCompiler(vocabulary(), grammar.Limits{})
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range files(t) {
		g, err := c.Compile(t.Context(), &generation.Constraint{Schema: string(f.Schema)})
		if err != nil {
			continue // counted by TestVectors
		}
		s, root, err := schema.New(regex.NewBuilder(regex.Limits{Nodes: 1e6, Work: 1e7}), string(f.Schema))
		require.NoError(t, err)
		for _, x := range f.Valid {
			text, ok := schema.Arrange(s, root, string(x), random.IntN(2) == 0)
			assert.True(t, ok, "%s: %s", f.name, x)
			rest, ok := accepts(g, random, text)
			assert.True(t, ok, "%s: %s: at %s", f.name, text, rest)
		}
		for _, x := range f.Invalid {
			text, _ := schema.Arrange(s, root, string(x), random.IntN(2) == 0)
			for _, one := range []string{text, compact(t, x)} {
				_, ok := accepts(g, random, one)
				assert.False(t, ok, "%s: %s", f.name, one)
			}
		}
	}
}

func compact(t testing.TB, text json.RawMessage) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(text))
	return strings.TrimSpace(b.String())
}

// TestWalks draws texts by mask and asks another validator whether they are valid. INGOT_LONG=1
// draws more of them.
func TestWalks(t *testing.T) {
	c := grammar.NewCompiler(vocabulary(), grammar.Limits{})
	random := rand.New(rand.NewPCG(3, 4))
	finished, all, walks := 0, 0, 2
	if os.Getenv("INGOT_LONG") != "" {
		walks = 20
	}
	for _, f := range files(t) {
		con := &generation.Constraint{Schema: string(f.Schema)}
		g, err := c.Compile(t.Context(), con)
		if err != nil {
			continue // counted by TestVectors
		}
		v := validator(t, string(f.Schema))
		for range walks {
			text, ok := walk(t, g, random, 1+random.IntN(80), 2000)
			all++
			if !ok {
				continue
			}
			finished++
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			require.NoError(t, err, "%s: %s", f.name, text)
			assert.NoError(t, v.Validate(value), "%s: %s", f.name, text)
		}
	}
	t.Logf("%d of %d walks finished", finished, all)
	assert.Greater(t, finished*10, all*9)
}
