package grammar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// spec is a random grammar over a small alphabet, in a form that brute reads without the code under
// test. Rule i has alternatives; a part is a rule, or a terminal, whose words are all its texts.
type spec struct {
	rules     [][][]part
	terminals [][]string
	specials  []string
}

type part struct{ rule, terminal, special int } // the one that is not -1

// build makes the rules of s with the code under test.
func (s spec) build(t require.TestingT) (*rules, symbol) {
	r := newRules(context.Background(), Limits{}.withDefaults())
	var nts, lexemes []symbol
	for i := range s.rules {
		nts = append(nts, r.nonterminal(fmt.Sprint("rule ", i)))
	}
	for _, words := range s.terminals {
		var list []regex.Node
		for _, w := range words {
			list = append(list, r.re.Literal(w))
		}
		lexemes = append(lexemes, r.lexeme(r.re.Or(list...)))
	}
	for i, alternatives := range s.rules {
		for _, sequence := range alternatives {
			var list []symbol
			for _, p := range sequence {
				switch {
				case p.rule >= 0:
					list = append(list, nts[p.rule])
				case p.terminal >= 0:
					list = append(list, lexemes[p.terminal])
				default:
					list = append(list, r.specialToken(s.specials[p.special]))
				}
			}
			r.rule(nts[i], list...)
		}
	}
	require.NoError(t, r.failed())
	return r, nts[0]
}

func (s spec) texts(p part) map[string]bool {
	if p.special >= 0 {
		return map[string]bool{string([]byte{byte(0xf0 + p.special)}): true}
	}
	words := map[string]bool{}
	for _, w := range s.terminals[p.terminal] {
		words[w] = true
	}
	return words
}

func drawSpec(t *rapid.T) spec {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("ab,")), 0, 3, -1)
	s := spec{
		terminals: rapid.SliceOfN(rapid.SliceOfN(word, 1, 4), 1, 4).Draw(t, "terminals"),
		specials:  []string{"<s0>", "<s1>"},
	}
	n := rapid.IntRange(1, 4).Draw(t, "rules")
	one := rapid.Custom(func(t *rapid.T) part {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2, 3, 4:
			return part{-1, rapid.IntRange(0, len(s.terminals)-1).Draw(t, "terminal"), -1}
		case 5:
			return part{-1, -1, rapid.IntRange(0, 1).Draw(t, "special")}
		}
		return part{rapid.IntRange(0, n-1).Draw(t, "rule"), -1, -1}
	})
	s.rules = rapid.SliceOfN(rapid.SliceOfN(rapid.SliceOfN(one, 0, 3), 1, 3), n, n).Draw(t, "grammar")
	return s
}

// smallVocabulary has tokens over the alphabet of drawSpec: ids 0 and 1 are special, 2 ends, the
// others are all texts of one to three letters, some of them twice.
func smallVocabulary() (*Vocabulary, []string) {
	texts := []string{"\xf0", "\xf1", ""}
	for _, x := range "ab," {
		texts = append(texts, string(x), string(x))
		for _, y := range "ab," {
			texts = append(texts, string(x)+string(y))
			for _, z := range "ab," {
				texts = append(texts, string(x)+string(y)+string(z))
			}
		}
	}
	texts = append(texts, "a\"", "\xe2\x82", "<s0>", ",a\"")
	v := NewVocabulary(len(texts), func(id int32) []byte {
		if id < 3 {
			return nil
		}
		return []byte(texts[id])
	}, func(id int32) string {
		if id < 3 {
			return [...]string{"<s0>", "<s1>", "<end>"}[id]
		}
		return ""
	}, []int32{2})
	return v, texts
}

func has(mask []uint32, id int) bool { return mask[id>>5]>>(id&31)&1 != 0 }

func TestMaskOfRandomGrammars(t *testing.T) {
	v, texts := smallVocabulary()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		r, start := s.build(t)
		g, err := newGrammar(r, start, v, Limits{}.withDefaults(), func(int64) {})
		require.Equal(t, !s.productive()[0], err != nil, "%v", err)
		if err != nil {
			return
		}
		m := g.NewMatcher()
		for text := ""; len(text) < 8; {
			mask := make([]uint32, v.words()+1)
			mask[len(mask)-1] = 7
			require.NoError(t, m.Mask(mask))
			require.Zero(t, mask[len(mask)-1])
			_, accepts := s.chart(text)
			require.Equal(t, accepts, m.Accepting(), "%q", text)
			require.Equal(t, accepts, has(mask, 2))
			var allowed []int
			for id, token := range texts {
				if id == 2 {
					continue
				}
				want, _ := s.chart(text + token)
				require.Equal(t, want, has(mask, id), "%q after %q", token, text)
				require.Equal(t, want, m.Allowed([]int32{int32(id)}) == 1, "%q after %q", token, text)
				if want {
					allowed = append(allowed, id)
				}
			}
			require.Equal(t, len(allowed) == 0, isDone(t, m))
			if len(allowed) == 0 {
				return
			}
			id := rapid.SampledFrom(allowed).Draw(t, "token")
			require.NoError(t, m.Accept(int32(id)))
			text += texts[id]
		}
	})
}

// chart reports whether text begins some text of the grammar, and whether it is one: a chart of the
// nonterminals and parts of rules that match or begin text[i:], by iteration until nothing changes.
func (s spec) chart(text string) (viable, accepts bool) {
	n := len(text)
	productive := s.productive()
	// spans[rule][i] has the ends of texts of the rule that begin at i; open[rule][i] reports
	// whether text[i:] begins a text of the rule.
	spans := make([][]map[int]bool, len(s.rules))
	open := make([][]bool, len(s.rules))
	for r := range s.rules {
		open[r] = make([]bool, n+1)
		for range n + 1 {
			spans[r] = append(spans[r], map[int]bool{})
		}
	}
	ends := func(p part, i int) (list []int, opens bool) {
		if p.rule >= 0 {
			return slices.Collect(maps.Keys(spans[p.rule][i])), open[p.rule][i]
		}
		for w := range s.texts(p) {
			switch {
			case strings.HasPrefix(text[i:], w):
				list = append(list, i+len(w))
				opens = opens || i+len(w) == n
			case strings.HasPrefix(w, text[i:]):
				opens = true
			}
		}
		return list, opens
	}
	for changed := true; changed; {
		changed = false
		for r, alternatives := range s.rules {
			for _, sequence := range alternatives {
				if slices.ContainsFunc(sequence, func(p part) bool { return p.rule >= 0 && !productive[p.rule] }) {
					continue
				}
				for i := range n + 1 {
					at := map[int]bool{i: true}
					for _, p := range sequence {
						next := map[int]bool{}
						for j := range at {
							list, opens := ends(p, j)
							for _, e := range list {
								next[e] = true
							}
							if opens && !open[r][i] {
								open[r][i], changed = true, true
							}
						}
						at = next
					}
					for e := range at {
						if !spans[r][i][e] {
							spans[r][i][e], changed = true, true
						}
						if e == n && !open[r][i] {
							open[r][i], changed = true, true
						}
					}
				}
			}
		}
	}
	return open[0][0], spans[0][0][n]
}

func (s spec) productive() []bool {
	list := make([]bool, len(s.rules))
	for changed := true; changed; {
		changed = false
		for r, alternatives := range s.rules {
			if !list[r] && slices.ContainsFunc(alternatives, func(sequence []part) bool {
				return !slices.ContainsFunc(sequence, func(p part) bool { return p.rule >= 0 && !list[p.rule] })
			}) {
				list[r], changed = true, true
			}
		}
	}
	return list
}
