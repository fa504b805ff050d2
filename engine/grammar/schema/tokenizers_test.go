package schema_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// TestTokenizers accepts all valid instances, and no invalid one, in the tokens of the vectors'
// tokenizers. INGOT_LONG=1 tests all instances with each tokenizer, otherwise each with one.
func TestTokenizers(t *testing.T) {
	list := files(t)
	paths, err := filepath.Glob(filepath.Join(os.Getenv("INGOT_VECTORS"), "tokenizers", "*.gguf"))
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("INGOT_VECTORS has no tokenizers")
	}
	for number, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			require.NoError(t, err)
			defer f.Close()
			tok, err := tokenizer.New(f.Meta())
			require.NoError(t, err)
			c := grammar.NewCompiler(grammar.NewVocabulary(tok.Size(), tok.Bytes, func(id int32) string {
				if len(tok.Bytes(id)) == 0 {
					return tok.Token(id)
				}
				return ""
			}, tok.StopIDs()), grammar.Limits{})
			accepts := func(g *grammar.Grammar, text string) bool {
				ids := encode(tok, text)
				m := g.NewMatcher()
				return m.Allowed(ids) == len(ids) && acceptAll(t, m, ids) && m.Accepting()
			}
			valid, invalid := 0, 0
			for i, v := range list {
				if os.Getenv("INGOT_LONG") == "" && i%len(paths) != number {
					continue
				}
				g, err := c.Compile(t.Context(), &generation.Constraint{Schema: string(v.Schema)})
				if err != nil {
					continue // counted by TestVectors
				}
				s, root, err := schema.New(regex.NewBuilder(regex.Limits{Nodes: 1e6, Work: 1e7}), string(v.Schema))
				require.NoError(t, err)
				for _, x := range v.Valid {
					text, _ := schema.Arrange(s, root, string(x), i%8 < 4)
					assert.True(t, accepts(g, text), "%s: %s", v.name, text)
					valid++
				}
				for _, x := range v.Invalid {
					assert.False(t, accepts(g, compact(t, x)), "%s: %s", v.name, x)
					invalid++
				}
			}
			t.Logf("%d valid instances, %d invalid", valid, invalid)
		})
	}
}

// encode returns the tokens of a text that goes on after a line end, if there is a token's end
// between the two.
func encode(tok *tokenizer.Tokenizer, text string) []int32 {
	ids := tok.Encode("\n"+text, tokenizer.EncodeOptions{})
	size := 0
	for i := len(ids) - 1; i >= 0; i-- {
		if size += len(tok.Bytes(ids[i])); size == len(text) {
			return ids[i:]
		}
	}
	return tok.Encode(text, tokenizer.EncodeOptions{})
}

func acceptAll(t testing.TB, m *grammar.Matcher, ids []int32) bool {
	t.Helper()
	for _, id := range ids {
		if m.Accept(id) != nil {
			return false
		}
	}
	return true
}
