package draft

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
)

// A preempted sequence keeps the record of its drafts and the n-grams of its text, and forgets its
// state in the cache.
func TestAPreemptedSequenceKeepsWhatItLearned(t *testing.T) {
	t.Parallel()
	tokens := []int32{1, 2, 3, 4, 1, 2, 3}
	s := Sequence{Tokens: tokens, Limit: 20, Computed: 7, Start: 6, Rows: 3, origin: 4, filled: 6, Drafts: []int32{4, 1}, Accepted: 1, gated: true, byNGram: true}
	s.ngrams = newNGrams()
	want := s.ngrams.Draft(nil, tokens, 3)
	require.Equal(t, []int32{4, 1, 2}, want)
	s.Total = Counts{Drafted: 9, Accepted: 5}
	s.ngramRecord.Observe(4, 2)
	s.passRecord.Observe(3, 3)
	ngrams, passes := s.ngramRecord, s.passRecord

	s.Preempt()
	require.Equal(t, want, s.ngrams.Draft(nil, tokens, 3))
	require.Equal(t, []record{ngrams, passes}, []record{s.ngramRecord, s.passRecord})
	require.Equal(t, Counts{Drafted: 9, Accepted: 5}, s.Total)
	require.Equal(t, tokens, s.Tokens)
	require.Empty(t, s.Drafts)
	require.Zero(t, s.origin+s.filled+s.Accepted)
	require.False(t, s.gated || s.byNGram)
}

// A sequence that adopts pages also uses the drafter's keys and values in them. They must reach the
// end of the pages without a gap; origin is the position at which they begin.
func TestAdoptedPagesHoldWhatTheDrafterProcessed(t *testing.T) {
	t.Parallel()
	const size = 4
	tokens := make([]int32, 5*size+1)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	for name, c := range map[string]struct {
		parts          [][2]int // positions that another sequence processed, each part with its own origin
		origin, filled int
	}{
		"everything":                   {parts: [][2]int{{0, 20}}, origin: 0, filled: 20},
		"nothing":                      {},
		"the beginning":                {parts: [][2]int{{0, 8}}},
		"the end":                      {parts: [][2]int{{8, 20}}, origin: 8, filled: 20},
		"less than the last page":      {parts: [][2]int{{0, 19}}},
		"two origins":                  {parts: [][2]int{{0, 8}, {12, 20}}, origin: 12, filled: 20},
		"another origin in the middle": {parts: [][2]int{{8, 20}, {12, 16}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := cache.NewPool(10, size, cache.Groups{})
			first := Sequence{Tokens: tokens, Table: pool.NewTable()}
			require.True(t, first.Table.Grow(len(tokens)))
			for _, part := range c.parts {
				first.origin, first.filled = part[0], part[0]
				first.process(1)
				first.process(part[1] - part[0] - 1)
			}
			first.Table.Commit(tokens, 5*size)

			second := Sequence{Tokens: tokens, Table: pool.NewTable()}
			positions := second.Table.Adopt(tokens)
			second.Adopt(positions)
			require.Equal(t, 5*size, positions)
			require.Equal(t, []int{c.origin, c.filled}, []int{second.origin, second.filled})
			require.Equal(t, second.Table.Pages()[c.origin/size:], second.pages())
			second.Adopt(second.Table.Adopt(tokens))
			require.Equal(t, []int{c.origin, c.filled}, []int{second.origin, second.filled}, "adopting again changes nothing")

			first.Table.Release()
			second.Table.Release()
			other := pool.NewTable()
			require.True(t, other.Grow(10*size))
			for i := range other.Pages() {
				require.Zero(t, other.Note(i), "pages with other content have no notes")
			}
		})
	}
}

// A sequence with fewer drafts has the confidence of those that are left.
func TestShorten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n      int
		ngram  bool
		want   Sequence
		drafts int
	}{
		"all":               {n: 3, want: Sequence{gated: true, confidence: []float64{0.1, 0.2, 0.3}}, drafts: 3},
		"more":              {n: 4, want: Sequence{gated: true, confidence: []float64{0.1, 0.2, 0.3}}, drafts: 3},
		"fewer":             {n: 2, want: Sequence{confidence: []float64{0.1, 0.2}}, drafts: 2},
		"none":              {n: 0, want: Sequence{confidence: []float64{}}},
		"fewer of a text":   {n: 1, ngram: true, want: Sequence{byNGram: true}, drafts: 1},
		"none of a text":    {n: 0, ngram: true, want: Sequence{}},
		"as many of a text": {n: 3, ngram: true, want: Sequence{byNGram: true, gated: true}, drafts: 3},
	} {
		s := Sequence{Drafts: []int32{1, 2, 3}, gated: true, byNGram: c.ngram}
		if !c.ngram {
			s.confidence = []float64{0.1, 0.2, 0.3}
		}
		s.Shorten(c.n)
		require.Equal(t, []int32{1, 2, 3}[:c.drafts], s.Drafts, name)
		require.Equal(t, c.want.confidence, s.confidence, name)
		require.Equal(t, []bool{c.want.gated, c.want.byNGram}, []bool{s.gated, s.byNGram}, name)
	}
}

// Drafts are verified in their order, and the step that verifies them generates a token more.
func TestVerify(t *testing.T) {
	t.Parallel()
	s := Sequence{Drafts: []int32{5, 6}, Limit: 20, Tokens: make([]int32, 9)}
	for _, c := range []struct {
		token    int32
		accepted int
	}{{4, 0}, {5, 1}, {5, 1}, {6, 2}, {6, 2}} {
		s.Verify(c.token)
		require.Equal(t, c.accepted, s.Accepted)
	}
	for limit, want := range map[int]int{20: MaxTokens, 18: 8, 17: 7, 10: 0} {
		s.Limit = limit
		require.Equal(t, []int{want, limit - 9}, []int{s.room(), s.remaining()})
	}
	for temperature, want := range map[float64]int{0: 0, 0.01: 1, 0.49: 1, 0.5: 2, 0.89: 2, 0.9: 3, 5: 3} {
		s.Temperature = temperature
		require.Equal(t, want, s.kind())
	}
	require.Same(t, &s.passRecord, s.record())
	s.byNGram = true
	require.Same(t, &s.ngramRecord, s.record())
}

// A sequence whose positions have all been processed keeps its origin when it adopts their pages.
func TestAdoptedPagesDoNotMoveTheOrigin(t *testing.T) {
	t.Parallel()
	pool := cache.NewPool(10, 4, cache.Groups{})
	first := Sequence{Tokens: span(0, 9), Table: pool.NewTable()}
	require.True(t, first.Table.Grow(9))
	first.process(8)
	first.Table.Commit(first.Tokens, 8)
	for filled, want := range map[int]int{7: 0, 8: 4, 9: 4} {
		s := Sequence{Table: pool.NewTable(), origin: 4, filled: filled}
		require.Equal(t, 8, s.Table.Adopt(first.Tokens))
		s.Adopt(8)
		require.Equal(t, []int{want, max(8, filled)}, []int{s.origin, s.filled})
	}
	none := Sequence{Table: pool.NewTable()}
	none.Adopt(0)
	require.Zero(t, none.filled)
}
