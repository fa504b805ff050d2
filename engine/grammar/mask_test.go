package grammar

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// jsonVocabulary has tokens as they are in models: parts of keys and strings, tokens that go over
// the end of a string, escapes, and parts of characters.
func jsonVocabulary() (*Vocabulary, []string) {
	texts := []string{""}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}))
	}
	for _, head := range []string{"", "a", "ab", "abc", "é", "€a", " ", "b c", "\\n", "\\", "\xe2\x82", "\xac", "12", "\"a", "{\"", "[", "\"", ",\""} {
		for _, tail := range []string{"", "\"", "\",", "\":", "\",\"", "\"}", "a", "ab", "\\\"", "}", "1", "€", "\xac\"", "d\":1", "\x01", "ññ"} {
			if text := head + tail; len(text) > 1 && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	texts = append(texts, strings.Repeat("a", 70), strings.Repeat("b", 63)+"\"", strings.Repeat("a", 600))
	v := NewVocabulary(len(texts), func(id int32) []byte { return []byte(texts[id]) }, func(int32) string { return "" }, []int32{0})
	return v, texts
}

// drawLexeme returns an expression as JSON Schemas make them, and a function that reports the same
// of a whole text.
func drawLexeme(t *rapid.T, b *regex.Builder) regex.Node {
	plain := plainRune(b)
	quote := b.Literal(`"`)
	char := b.Or(plain, b.Concat(b.Literal(`\`), b.Or(b.Literal("n"), b.Literal(`"`), b.Literal(`\`))))
	bound := rapid.SampledFrom([]int{regex.Unbounded, 1, 2, 3, 63, 64, 65, 200})
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return b.Concat(quote, b.Repeat(char, 0, bound.Draw(t, "most")), quote)
	case 1:
		return b.Concat(quote, b.Repeat(char, 2, regex.Unbounded), quote)
	case 2: // any key but some
		known := b.Or(b.Literal("a"), b.Literal("ab"), b.Literal("abé"))
		return b.Concat(quote, b.Minus(b.Repeat(char, 0, regex.Unbounded), known), b.Literal(`":`))
	case 3:
		return b.Literal(rapid.SampledFrom([]string{`"a":`, `"ab"`, "{", "}", `,`, `":`, "12"}).Draw(t, "literal"))
	case 4:
		return b.Repeat(plain, rapid.IntRange(0, 2).Draw(t, "least"), bound.Draw(t, "most"))
	case 5:
		return b.And(b.Concat(quote, b.Repeat(char, 0, 5), quote), b.Concat(quote, b.Repeat(b.Or(b.Literal("ab"), b.Literal("a"), b.Literal("€")), 0, regex.Unbounded), quote))
	case 7: // choices, short and long
		var list []regex.Node
		for range rapid.IntRange(1, 12).Draw(t, "choices") {
			list = append(list, b.Literal(strings.Repeat(rapid.SampledFrom([]string{"a", "ab", "b", "é", "12"}).Draw(t, "text"), rapid.SampledFrom([]int{1, 2, 3, 35, 63, 64, 70}).Draw(t, "times"))))
		}
		return b.Or(list...)
	case 6:
		return b.Repeat(b.Runes(regex.RuneRange{Lo: '0', Hi: '9'}), 1, bound.Draw(t, "most"))
	}
	return b.Concat(b.Text(), b.Literal(","))
}

// Masks are the tokens whose bytes, one after the other, lead somewhere: the ready-made sets leave
// out none and add none.
func TestMaskOfJSONLexemes(t *testing.T) {
	v, texts := jsonVocabulary()
	rapid.Check(t, func(t *rapid.T) {
		r := newRules(t.Context(), Limits{}.withDefaults())
		var lexemes []symbol
		for range rapid.IntRange(1, 4).Draw(t, "lexemes") {
			lexemes = append(lexemes, r.lexeme(drawLexeme(t, r.re)))
		}
		nts := []symbol{r.nonterminal("a"), r.nonterminal("b")}
		parts := slices.Concat(lexemes, nts)
		for _, nt := range nts {
			for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
				r.rule(nt, rapid.SliceOfN(rapid.SampledFrom(parts), 0, 3).Draw(t, "sequence")...)
			}
		}
		g, err := newGrammar(r, nts[0], v, Limits{}.withDefaults(), func(int64) {})
		if err != nil {
			return
		}
		m := g.NewMatcher()
		for range 4 {
			mask := make([]uint32, v.words())
			if err := m.Mask(mask); err != nil {
				require.ErrorIs(t, err, ErrBudget) // texts of very ambiguous grammars
				return
			}
			var allowed []int32
			for id := range int32(len(texts)) {
				if id == 0 {
					continue
				}
				want := len(texts[id]) < maxTokenBytes && m.Allowed([]int32{id}) == 1
				// In very ambiguous grammars, a walk can take Limits.MaskWork. With the states that
				// it has made, another one gets further.
				for range 20 {
					want = want || has(mask, int(id)) && m.Allowed([]int32{id}) == 1
				}
				require.Equal(t, want, has(mask, int(id)), "%q", texts[id])
				if want {
					allowed = append(allowed, id)
				}
			}
			if len(allowed) == 0 {
				return
			}
			err := m.Accept(rapid.SampledFrom(allowed).Draw(t, "token"))
			if overBudget(err) {
				return
			}
			require.NoError(t, err)
		}
	})
}

// Masks at all positions of the vectors' instances are those of a walk over all tokens.
func TestMaskOfVectors(t *testing.T) {
	_, v := loadTokenizer(t, filepath.Join(vectorFolder(t), "tokenizers", "gpt-2.gguf"), 0)
	c := NewCompiler(v, Limits{})
	checked := 0
	for i, s := range schemaVectors(t) {
		if i%10 != 0 || len(s.Valid) == 0 {
			continue
		}
		g, err := c.Compile(t.Context(), &generation.Constraint{Schema: string(s.Schema)})
		if err != nil {
			continue
		}
		m := g.NewMatcher()
		seen := map[*position]bool{}
		for _, id := range v.split(arranged(t, s.Schema, s.Valid[0])) {
			mask, walked := make([]uint32, v.words()), make([]uint32, v.words())
			require.NoError(t, m.Mask(mask))
			if p := m.positions[len(m.positions)-1]; !seen[p] && len(seen) < 12 {
				seen[p] = true
				checked++
				w := work{left: 1 << 30}
				list := m.automaton.walk(nil, v.plain, 0, p, &w)
				list = m.automaton.walk(list, v.rest, 0, p, &w)
				if p.accepting() {
					list = append(list, v.ends...)
				}
				write(walked, []*tokenSet{{list: list}})
				for _, s := range v.same {
					if has(walked, int(s[0])) {
						walked[s[1]>>5] |= 1 << (s[1] & 31)
					}
				}
				require.Equal(t, walked, mask, s.Name)
			}
			if m.Accept(id) != nil {
				break
			}
		}
	}
	assert.Greater(t, checked, 100)
}

func TestRollbackAndClone(t *testing.T) {
	v, texts := jsonVocabulary()
	c := NewCompiler(v, Limits{})
	g, err := c.Compile(t.Context(), &generation.Constraint{Schema: `{"type":"object","properties":{"a":{"type":"string"},"ab":{"type":"array","items":{"type":"number"}}}}`})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		m := g.NewMatcher()
		clones := map[*Matcher][]int32{m: nil}
		maskOf := func(m *Matcher) []uint32 {
			mask := make([]uint32, v.words())
			require.NoError(t, m.Mask(mask))
			return mask
		}
		for range 12 {
			m := rapid.SampledFrom(slices.SortedFunc(keys(clones), func(x, y *Matcher) int { return slices.Compare(clones[x], clones[y]) })).Draw(t, "matcher")
			tokens := clones[m]
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				clones[m.Clone()] = slices.Clone(tokens)
			case 1:
				n := rapid.IntRange(0, len(tokens)+1).Draw(t, "back")
				m.Rollback(n)
				clones[m] = tokens[:max(len(tokens)-n, 0)]
			default:
				mask := maskOf(m)
				var allowed []int32
				for id := range int32(len(texts)) {
					if has(mask, int(id)) {
						allowed = append(allowed, id)
					}
				}
				id := rapid.SampledFrom(allowed).Draw(t, "token")
				require.NoError(t, m.Accept(id))
				clones[m] = append(slices.Clip(tokens), id)
				refused := rapid.Int32Range(0, int32(len(texts)-1)).Draw(t, "other")
				if after := maskOf(m); !has(after, int(refused)) {
					require.Error(t, m.Accept(refused))
					require.Equal(t, after, maskOf(m))
				}
			}
		}
		for m, tokens := range clones {
			again := g.NewMatcher()
			for _, id := range tokens {
				require.NoError(t, again.Accept(id))
			}
			require.Equal(t, maskOf(again), maskOf(m))
			require.Equal(t, again.Accepting(), m.Accepting())
			require.Equal(t, isDone(t, again), isDone(t, m))
		}
	})
}

func isDone(t require.TestingT, m *Matcher) bool {
	done, err := m.Done()
	require.NoError(t, err)
	return done
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Matchers of one grammar on several goroutines fill in one automaton, and replace a full one.
func TestMatchersAtOnce(t *testing.T) {
	v, _ := jsonVocabulary()
	c := NewCompiler(v, Limits{StateBytes: 600 << 10})
	con := &generation.Constraint{Schema: `{"type":"array","items":{"type":"string","maxLength":200,"pattern":"^[a-zé€ ]*$"}}`}
	first, err := c.Compile(t.Context(), con)
	require.NoError(t, err)
	before := first.current.Load()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			g, err := c.Compile(t.Context(), con)
			if err != nil {
				t.Error(err)
				return
			}
			m := g.NewMatcher()
			mask := make([]uint32, v.words())
			for _, id := range v.split(`["` + strings.Repeat("ab", i) + `","é€","b c","` + strings.Repeat("x", 20*i) + `"]`) {
				if err := m.Mask(mask); err != nil || !has(mask, int(id)) || m.Accept(id) != nil {
					t.Errorf("token %d: %v", id, err)
				}
			}
			if done, err := m.Done(); err != nil || !done {
				t.Errorf("done: %v, %v", done, err)
			}
		})
	}
	group.Wait()
	replaced := before != first.current.Load()
	assert.True(t, replaced, "it was never full")
}

func BenchmarkNewVocabulary(b *testing.B) {
	tok, v := loadTokenizer(b, filepath.Join(vectorFolder(b), "tokenizers", "gpt-2.gguf"), 0)
	for b.Loop() {
		NewVocabulary(v.size, tok.Bytes, func(int32) string { return "" }, nil)
	}
}
