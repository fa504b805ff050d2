package grammar

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// follow accepts text again and again, with the mask before each time, and returns how often that
// went well, the most steps of a mask and the error.
func follow(m *Matcher, text string, times int) (n, most int, err error) {
	v := m.grammar.vocabulary
	mask := make([]uint32, v.words())
	id := v.split(text)[0]
	for n < times {
		before := m.used
		if err = m.Mask(mask); err == nil {
			most = max(most, m.used-before)
			err = m.Accept(id)
		}
		if err != nil {
			return n, most, err
		}
		n++
	}
	return n, most, nil
}

// An answer that can be read in more and more ways ends at a place that depends on its tokens
// alone: not on the answers before it, whose states it finds, nor on when an automaton was full.
func TestAmbiguousAnswers(t *testing.T) {
	t.Parallel()
	v, _ := jsonVocabulary()
	for grammar, text := range map[string]string{
		`root ::= root root root | "q" | "qq" | ""`: "q",
		`root ::= root root | "a"`:                  "a",
	} {
		t.Run(grammar, func(t *testing.T) {
			t.Parallel()
			ambiguousAnswers(t, compileFor(t, v, generation.Constraint{Grammar: grammar}), text)
		})
	}
}

func ambiguousAnswers(t *testing.T, g *Grammar, text string) {
	t.Helper()
	v := g.vocabulary
	first := g.NewMatcher()
	n, most, err := follow(first, text, 900)
	require.ErrorIs(t, err, ErrAmbiguous)
	assert.Greater(t, n, 20)
	assert.LessOrEqual(t, most, g.limits.MaskWork)
	assert.LessOrEqual(t, first.used, g.limits.AnswerWork)

	warm := g.NewMatcher()
	again, _, err := follow(warm, text, 900)
	require.ErrorIs(t, err, ErrAmbiguous)
	assert.Equal(t, n, again, "after an answer with the same states")
	assert.Less(t, warm.used, first.used/100, "it found the states")

	renewed := g.NewMatcher()
	half, _, err := follow(renewed, text, n/2)
	require.NoError(t, err)
	renewed.automaton, _ = g.renew(renewed.automaton)
	renewed.positions = nil
	again, _, err = follow(renewed, text, 900)
	require.ErrorIs(t, err, ErrAmbiguous)
	assert.Equal(t, n, half+again, "in a new automaton")

	first.Rollback(1)
	require.NoError(t, first.Accept(v.split(text)[0]))
	require.ErrorIs(t, first.Clone().Accept(v.split(text)[0]), ErrAmbiguous)
	first.Rollback(n)
	require.Empty(t, first.rows)
	again, _, err = follow(first, text, 900)
	require.ErrorIs(t, err, ErrAmbiguous)
	assert.Equal(t, n, again, "after a rollback")
}

// A text that has one reading may be long.
func TestLongAnswersAreNotAmbiguous(t *testing.T) {
	t.Parallel()
	v, _ := jsonVocabulary()
	for _, c := range []generation.Constraint{
		{Grammar: `root ::= "a" root | "a"`},
		{Grammar: `root ::= root "a" | "a"`},
		{Regex: "a*"},
	} {
		_, _, err := follow(compileFor(t, v, c).NewMatcher(), "a", 5000)
		require.NoError(t, err, c)
	}
}

// All masks of one answer together take a bounded number of steps, and an answer has its steps for
// itself. With an expression of many states, it ends where it would have ended as the first one,
// whatever states other answers have made.
func TestAnswersHaveABudget(t *testing.T) {
	t.Parallel()
	v, _ := jsonVocabulary()
	limits := Limits{AnswerWork: 200_000}
	g, err := NewCompiler(v, limits).Compile(t.Context(), &generation.Constraint{Regex: "(a|b)*a(a|b){400}"})
	require.NoError(t, err)
	m := g.NewMatcher()
	n, most, err := follow(m, "a", 300)
	require.ErrorIs(t, err, ErrBudget)
	assert.Positive(t, n)
	assert.LessOrEqual(t, m.used, limits.AnswerWork+n*limits.AnswerWork/workShare+2*most)
	for _, text := range []string{"b", "a", "a"} {
		again := g.NewMatcher()
		further, _, err := follow(again, text, 300)
		if text == "a" {
			require.ErrorIs(t, err, ErrBudget)
			require.Equal(t, n, further)
			require.Equal(t, m.used, again.used)
		}
	}
}

// Only answers in a form with very many states have automata of their own.
func TestManyStates(t *testing.T) {
	t.Parallel()
	v, _ := jsonVocabulary()
	for expression, many := range map[string]bool{
		"(a|b)*a(a|b){400}":               true,
		"[a-z ]*e[a-z ]{100}":             true,
		".*a.{200}":                       true,
		".*a.{20}":                        false,
		"[a-z ]{2000}":                    false,
		`(\w+\s){1,100}\w+`:               false,
		"(foo|bar|baz|qux){1,300}":        false,
		`.*(error|warn|info).{0,50}(a|b)`: false,
	} {
		g := compileFor(t, v, generation.Constraint{Regex: expression})
		require.Equal(t, many, g.apart, expression)
		require.Equal(t, many, g.NewMatcher().automaton == nil, expression)
	}
}
