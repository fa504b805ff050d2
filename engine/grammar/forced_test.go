package grammar

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

func compileFor(t testing.TB, v *Vocabulary, c generation.Constraint) *Grammar {
	g, err := NewCompiler(v, Limits{}).Compile(t.Context(), &c)
	require.NoError(t, err)
	return g
}

func TestForced(t *testing.T) {
	tok, v := loadTokenizer(t, filepath.Join(vectorFolder(t), "tokenizers", "gpt-2.gguf"), 0)
	encode := func(text string) []int32 { return tok.Encode(text, tokenizer.EncodeOptions{}) }
	for _, test := range []struct {
		name   string
		c      generation.Constraint
		before string // accepted, as the tokenizer splits it
		want   string
	}{
		{"the only choice", generation.Constraint{Choices: []string{"the answer is yes"}}, "", "the answer is yes"},
		// " no" and " now" go on with one token: the space is not settled.
		{"before two choices", generation.Constraint{Choices: []string{"it is no", "it is now"}}, "", "it is"},
		{"after a choice", generation.Constraint{Choices: []string{"yes, it is", "no"}}, "yes", ", it is"},
		{"nothing", generation.Constraint{Choices: []string{"yes", "no"}}, "", ""},
		{"where the text may end", generation.Constraint{Choices: []string{"yes", "yes it is"}}, "yes", ""},
		{"a key", generation.Constraint{Schema: `{"type":"object","properties":{"name":{"type":"integer"}},"required":["name"],"additionalProperties":false}`}, "", `{"name`}, // then `":` or `":-`
		{"half a character", generation.Constraint{Choices: []string{"aé", "aè"}}, "", "a"},
		{"at the end", generation.Constraint{Choices: []string{"a €"}}, "", "a €"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := compileFor(t, v, test.c).NewMatcher()
			for _, id := range encode(test.before) {
				require.NoError(t, m.Accept(id))
			}
			forced, err := m.Forced(encode)
			require.NoError(t, err)
			assert.Equal(t, test.want, tok.Decode(forced))
			assert.Len(t, m.tokens, len(encode(test.before)))
		})
	}
}

// TestForcedAreCanonical follows the vectors' instances: at each place, forced tokens are those of
// the whole text's tokenisation.
func TestForcedAreCanonical(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama-spm", "starcoder"} {
		t.Run(name, func(t *testing.T) {
			tok, v := loadTokenizer(t, filepath.Join(vectorFolder(t), "tokenizers", name+".gguf"), 0)
			line := tok.Encode("\n", tokenizer.EncodeOptions{})
			forcedAreCanonical(t, v, func(text string) []int32 { // as a text that goes on after a line
				return tok.Encode("\n"+text, tokenizer.EncodeOptions{})[len(line):]
			})
		})
	}
}

func forcedAreCanonical(t *testing.T, v *Vocabulary, encode func(string) []int32) {
	tokens, skipped := 0, 0
	for i, s := range schemaVectors(t) {
		if i%12 != 0 || len(s.Valid) == 0 {
			continue
		}
		g, err := NewCompiler(v, Limits{}).Compile(t.Context(), &generation.Constraint{Schema: string(s.Schema)})
		if err != nil {
			continue
		}
		text := arranged(t, s.Schema, s.Valid[0])
		ids := encode(text)
		if len(ids) > 500 || g.NewMatcher().Allowed(ids) < len(ids) {
			continue
		}
		m := g.NewMatcher()
		for at := 0; at < len(ids); {
			forced, err := m.Forced(encode)
			require.NoError(t, err)
			if !slices.Equal(forced, ids[at:min(at+len(forced), len(ids))]) {
				t.Errorf("%s: after %q: forced %q, want %q", s.Name, v.text(ids[max(at-9, 0):at]),
					v.text(forced), v.text(ids[at:min(at+len(forced)+2, len(ids))]))
			}
			next := max(len(forced), 1)
			for _, id := range ids[at:min(at+next, len(ids))] {
				require.NoError(t, m.Accept(id))
			}
			at += next
			tokens += next
			skipped += len(forced)
		}
	}
	t.Logf("%d of %d tokens are forced", skipped, tokens)
	assert.Greater(t, skipped*20, tokens)
}

func (v *Vocabulary) text(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = append(b, v.bytes[id]...)
	}
	return string(b)
}
