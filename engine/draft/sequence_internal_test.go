package draft

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A preempted sequence keeps what its drafts have shown and the n-grams of its text, and forgets what is in the cache.
func TestAPreemptedSequenceKeepsWhatItLearned(t *testing.T) {
	t.Parallel()
	tokens := []int32{1, 2, 3, 4, 1, 2, 3}
	s := Sequence{Tokens: tokens, Limit: 20, Computed: 7, Start: 6, Rows: 3, filled: 6, Drafts: []int32{4, 1}, Accepted: 1, gated: true, byNGram: true}
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
	require.Zero(t, s.Computed+s.Start+s.Rows+s.filled+s.Accepted)
	require.False(t, s.gated || s.byNGram)
}
