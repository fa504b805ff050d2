package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func specialVocabulary(tokens []string) *vocabulary {
	return &vocabulary{tokens: tokens, kinds: slices.Repeat([]kind{kindControl}, len(tokens))}
}

// find returns the first position at which a token begins, and the longest token at this position.
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

// The time of a search hardly depends on the number of special tokens that begin with a character
// of the text.
func TestManySpecialTokensAreFoundFast(t *testing.T) { // not parallel, because it measures time
	const characters, perCharacter = 10_000, 2 * time.Microsecond // a search takes some nanoseconds per character; a look-up for each length of a token would take 80 µs
	tokens := make([]string, 1748)
	for i := range tokens {
		tokens[i] = strings.Repeat("a", i+1) + "b"
	}
	s, text := newSpecialTokens(specialVocabulary(tokens), kindControl), strings.Repeat("a<", characters/2)
	fastest := time.Hour
	for begun := time.Now(); fastest > characters*perCharacter; {
		require.Less(t, time.Since(begun), 5*time.Second, "the search takes %v per character", fastest/characters)
		start := time.Now()
		_, length, _ := s.find(text, &pacer{ctx: t.Context()})
		fastest = min(fastest, time.Since(start))
		require.Zero(t, length)
	}
}

// BenchmarkFindSpecial searches 100 KB of two texts: in one, every character begins many special
// tokens; in the other, few characters do. No special token occurs.
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

// A file whose special tokens are longer than any real one is refused: a search for them would take
// very long, and a recursion over their bytes would overflow the stack.
func TestLongSpecialTokensAreRefused(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]string{
		maxSpecialBytes:     "",
		maxSpecialBytes + 1: "load tokenizer: metadata tokenizer.ggml.tokens: special token 256 has 4097 bytes, more than 4096",
		8 << 20:             "load tokenizer: metadata tokenizer.ggml.tokens: special token 256 has 8388608 bytes, more than 4096",
	} {
		f := byteLevel()
		f.token(strings.Repeat("a", length-1)+"b", kindControl)
		f.token(strings.Repeat("a", length-1)+"c", kindUserDefined)
		_, err := New(f.meta())
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
	}
}
