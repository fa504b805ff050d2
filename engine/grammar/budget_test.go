package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// overBudget reports whether an answer ended because checking it takes too long, as answers to very
// ambiguous rules may.
func overBudget(err error) bool { return errors.Is(err, ErrBudget) || errors.Is(err, ErrAmbiguous) }

// A full automaton is replaced, in the middle of texts and with matchers in different ones, and
// nothing else changes.
func TestFullAutomaton(t *testing.T) {
	v, texts := jsonVocabulary()
	c := generation.Constraint{Schema: `{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","maxLength":90},"ab":{"type":"array","items":{"type":"number"}}},"required":["a"]}}`}
	large := compileFor(t, v, c)
	small, err := NewCompiler(v, Limits{StateBytes: 200 << 10}).Compile(t.Context(), &c)
	require.NoError(t, err)
	first := small.current.Load()
	random := rand.New(rand.NewPCG(1, 2))
	matchers := []*Matcher{small.NewMatcher(), small.NewMatcher(), small.NewMatcher()}
	same := []*Matcher{large.NewMatcher(), large.NewMatcher(), large.NewMatcher()}
	for range 300 {
		i := random.IntN(len(matchers))
		m, s := matchers[i], same[i]
		got, want := make([]uint32, v.words()), make([]uint32, v.words())
		require.NoError(t, m.Mask(got))
		require.NoError(t, s.Mask(want))
		require.Equal(t, want, got)
		var allowed []int32
		for id := range int32(len(texts)) {
			if has(got, int(id)) && id > 0 {
				allowed = append(allowed, id)
			}
		}
		if len(allowed) == 0 || random.IntN(20) == 0 {
			n := random.IntN(len(m.tokens) + 1)
			m.Rollback(n)
			s.Rollback(n)
			continue
		}
		id := allowed[random.IntN(len(allowed))]
		require.NoError(t, m.Accept(id))
		require.NoError(t, s.Accept(id))
		assert.Less(t, small.current.Load().bytes(), int64(300<<10))
	}
	replaced := first != small.current.Load()
	assert.True(t, replaced, "it was never full")
}

// The cache has at most its bytes, and counts what its grammars take as they grow.
func TestCacheIsBounded(t *testing.T) {
	v, _ := jsonVocabulary()
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(1, 400).Draw(t, "KB") << 10)
		c := NewCompiler(v, Limits{CacheBytes: limit})
		var matchers []*Matcher
		check := func() {
			var sum int64
			for e := c.used.Front(); e != nil; e = e.Next() {
				e := e.Value.(*entry)
				sum += e.bytes
				if e.grammar != nil {
					require.Equal(t, e.bytes, int64(len(e.key))+e.grammar.size+e.grammar.current.Load().bytes())
				}
			}
			require.Equal(t, sum, c.bytes)
			require.Len(t, c.entries, c.used.Len())
			require.LessOrEqual(t, c.bytes, limit)
		}
		for range 15 {
			if len(matchers) > 0 && rapid.Bool().Draw(t, "grow") {
				m := rapid.SampledFrom(matchers).Draw(t, "matcher")
				require.NoError(t, m.Mask(make([]uint32, v.words())))
				_ = m.Accept(v.split(`"abc"`)[0]) // allowed as the first token
				m.Rollback(rapid.IntRange(0, 1).Draw(t, "back"))
				m.Allowed(v.split(`abc123éfgh`))
			} else {
				n := rapid.IntRange(1, 8).Draw(t, "schema")
				con := &generation.Constraint{Schema: fmt.Sprintf(`{"type":"string","minLength":%d}`, n)}
				g, err := c.Compile(t.Context(), con)
				require.NoError(t, err)
				if e, ok := c.entries[keyOf(con)]; ok {
					require.Same(t, e, c.used.Front())
				}
				matchers = append(matchers, g.NewMatcher())
			}
			check()
		}
	})
}

func TestCompileOnce(t *testing.T) {
	v, _ := jsonVocabulary()
	c := NewCompiler(v, Limits{})
	con := &generation.Constraint{Choices: []string{"a", "b"}}
	g, err := c.Compile(t.Context(), con)
	require.NoError(t, err)
	again, err := c.Compile(t.Context(), &generation.Constraint{Choices: []string{"a", "b"}})
	require.NoError(t, err)
	assert.Same(t, g, again)
	for _, other := range []generation.Constraint{{Choices: []string{"a,b"}}, {Regex: "ab"}, {Grammar: "start: \"ab\""}, {Schema: `{"const":"ab"}`}} {
		different, err := c.Compile(t.Context(), &other)
		require.NoError(t, err)
		assert.NotSame(t, g, different)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Compile(ctx, &generation.Constraint{Choices: []string{"c"}})
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Compile(t.Context(), &generation.Constraint{Choices: []string{"c"}})
	require.NoError(t, err, "an abandoned compilation is not remembered")
}

// Rules whose texts can be split in very many ways, or whose lexemes have very many states, cost a
// bounded number of steps and bytes, counted and not timed.
func TestHostileRules(t *testing.T) {
	v, _ := jsonVocabulary()
	limits := Limits{StateBytes: 4 << 20, MaskWork: 500_000, AnswerWork: 1_000_000}.withDefaults()
	a := func(r *rules, n, m int) symbol { return r.lexeme(r.re.Repeat(r.re.Literal("a"), n, m)) }
	for name, build := range map[string]func(r *rules) symbol{
		"ambiguous": func(r *rules) symbol {
			nt := r.nonterminal("s")
			r.rule(nt, nt, nt)
			r.rule(nt, nt, nt, nt)
			r.rule(nt, a(r, 1, 300))
			r.rule(nt)
			return nt
		},
		"counters": func(r *rules) symbol {
			return r.repeat(a(r, 0, 1000), none, 1000, 1000)
		},
		"palindromes": func(r *rules) symbol {
			nt := r.nonterminal("s")
			for _, c := range "ab" {
				l := r.literal(string(c))
				r.rule(nt, l, nt, l)
				r.rule(nt, l)
			}
			r.rule(nt)
			return nt
		},
		"far look back": func(r *rules) symbol {
			ab := r.re.Or(r.re.Literal("a"), r.re.Literal("b"))
			return r.lexeme(r.re.Concat(r.re.Repeat(ab, 0, regex.Unbounded), r.re.Literal("a"), r.re.Repeat(ab, 400, 400)))
		},
		"intersection": func(r *rules) symbol {
			list := []regex.Node{r.re.Text()}
			for i := range 30 {
				list = append(list, r.re.Not(r.re.Concat(regex.All, r.re.Literal(strings.Repeat("ab", i+1)), regex.All, r.re.Literal("a"), r.re.Repeat(r.re.AnyRune(), i, i))))
			}
			return r.lexeme(r.re.And(list...))
		},
		"nested": func(r *rules) symbol {
			nt := r.nonterminal("s")
			for range 200 {
				next := r.nonterminal("s")
				r.rule(nt, next, a(r, 0, 1))
				r.rule(nt, a(r, 0, 2), next)
				nt = next
			}
			r.rule(nt, a(r, 1, 1))
			return r.symbolsFirst()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRules(t.Context(), limits)
			start := build(r)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			g, err := newGrammar(r, start, v, limits, func(int64) {})
			if err != nil {
				t.Log(err)
				return
			}
			m := g.NewMatcher()
			mask := make([]uint32, v.words())
			for i := range 40 {
				if err = m.Mask(mask); err == nil {
					err = m.Accept(v.split([]string{"a", "b"}[i*i/3%2])[0])
				}
				if err != nil && !errors.Is(err, ErrBudget) {
					err = m.Accept(v.split("a")[0])
				}
				if err != nil {
					t.Log(i, err)
					break
				}
				a := g.current.Load()
				require.LessOrEqual(t, a.bytes(), limits.StateBytes)
				w := work{left: limits.MaskWork}
				a.findTokens(m.positions[len(m.positions)-1], &w)
				require.Greater(t, w.left, -limits.MaskWork/4, "one step goes far over the limit")
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			assert.Less(t, int64(after.HeapAlloc-before.HeapAlloc)>>10, 2*limits.StateBytes>>10, "KB")
			runtime.KeepAlive(m)
		})
	}
}

func (r *rules) symbolsFirst() symbol {
	for i, s := range r.symbols {
		if s.kind == kindNonterminal {
			return symbol(i)
		}
	}
	return none
}

// What must follow does not depend on the states that other answers have left: a call that runs out
// of steps says so, and does not find fewer tokens.
func TestForcedAtAnyBudget(t *testing.T) {
	v, _ := jsonVocabulary()
	for name, c := range map[string]generation.Constraint{
		"lexeme":  {Choices: []string{`{"abc":[12,1.5]}`}},
		"grammar": {Grammar: `root ::= "{" pair "}"` + "\n" + `pair ::= name ":" "[" "1" "2" "]"` + "\n" + `name ::= "\"" "a" "b" "c" "\""`},
	} {
		want, err := compileFor(t, v, c).NewMatcher().Forced(v.split)
		require.NoError(t, err)
		require.Greater(t, len(want), 5, name)
		refused := 0
		for steps := 1; ; steps += 1 + steps/20 {
			g := compileFor(t, v, c)
			g.limits.MaskWork = steps
			cold, err := g.NewMatcher().Forced(v.split)
			if err == nil {
				require.Equal(t, want, cold, "%s: %d steps", name, steps)
				break
			}
			require.ErrorIs(t, err, ErrBudget)
			refused++
		}
		require.Greater(t, refused, 10, name)

		for steps := 1; ; steps += 1 + steps/20 {
			g := compileFor(t, v, c)
			m := g.NewMatcher()
			for _, id := range want {
				require.NoError(t, m.Accept(id))
			}
			g.limits.MaskWork = steps
			if done, err := m.Done(); err == nil {
				require.True(t, done, "%s: %d steps", name, steps)
				break
			}
		}
	}
}

// A call that runs out of steps leaves nothing behind that another call takes for an answer.
func TestBudgetLeavesNothing(t *testing.T) {
	v, _ := jsonVocabulary()
	c := generation.Constraint{Schema: `{"type":"object","properties":{"a":{"type":"string","pattern":"^(ab|c)*$"},"ab":{"type":"array","items":{"type":"number"}}},"required":["a","ab"]}`}
	want := compileFor(t, v, c).NewMatcher()
	g := compileFor(t, v, c)
	m := g.NewMatcher()
	ids := v.split(`{"a":"abc","ab":[12,1.5]}`)
	enough := g.limits.MaskWork
	for _, id := range append(ids, v.ends[0]) {
		got, mask := make([]uint32, v.words()), make([]uint32, v.words())
		require.NoError(t, want.Mask(mask))
		for steps := 1; ; steps += 1 + steps/20 {
			g.limits.MaskWork = steps
			err := m.Mask(got)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, ErrBudget)
		}
		require.Equal(t, mask, got)
		for steps := 1; ; steps++ {
			g.limits.MaskWork = steps
			if m.Accept(id) == nil {
				break
			}
			require.Less(t, steps, enough)
		}
		require.NoError(t, want.Accept(id))
	}
}
