package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func specialVocabulary(tokens []string) *vocabulary {
	return &vocabulary{tokens: tokens, kinds: slices.Repeat([]kind{kindControl}, len(tokens))}
}

// The first place of the text at which a token begins is found, and the longest token there.
func TestFindSpecialTokens(t *testing.T) {
	t.Parallel()
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfNDistinct(word, 0, 12, rapid.ID[string]).Draw(t, "tokens")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 20, -1).Draw(t, "text")
		at, length, id := len(text), 0, none
		for i := len(text) - 1; i >= 0; i-- {
			longest := 0
			for token, s := range tokens {
				if len(s) > longest && strings.HasPrefix(text[i:], s) {
					at, length, id, longest = i, len(s), int32(token), len(s)
				}
			}
		}
		gotAt, gotLength, gotID := newSpecialTokens(specialVocabulary(tokens), kindControl).find(text, &pacer{ctx: t.Context()})
		require.Equal(t, []int{at, length, int(id)}, []int{gotAt, gotLength, int(gotID)})
	})
}

// BenchmarkFindSpecial searches 100 KB of a text in which every character begins many special tokens and none occurs, and one in
// which few characters do.
func BenchmarkFindSpecial(b *testing.B) {
	hostile, usual := make([]string, 1748), make([]string, 256)
	for i := range hostile {
		hostile[i] = strings.Repeat("a", i+1) + "b"
	}
	for i := range usual {
		usual[i] = fmt.Sprintf("<|reserved_special_token_%d|>", i)
	}
	for _, c := range []struct {
		name   string
		tokens []string
		text   string
	}{
		{"hostile", hostile, strings.Repeat("a", 100_000)},
		{"hostile, apart", slices.Concat(hostile, usual), strings.Repeat("a<", 50_000)},
		{"usual", usual, strings.Repeat("a text with 1 < 2. ", 5300)},
	} {
		s := newSpecialTokens(specialVocabulary(c.tokens), kindControl)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				s.find(c.text, &pacer{ctx: b.Context()})
			}
		})
	}
}
