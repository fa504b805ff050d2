package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKnownPagesAreTheLastOnes computes a text a second time, as a sequence with a recurrent state
// does if no state was kept. The second pages replace the first ones, which are in no table and
// would be evicted sooner.
func TestKnownPagesAreTheLastOnes(t *testing.T) {
	t.Parallel()
	p := NewPool(6, 2, Groups{})
	tokens := []int32{1, 2, 3, 4, 5, 6, 7}
	text := p.Prefix(tokens)
	require.Zero(t, p.Known(text))
	first, second := p.NewTable(), p.NewTable()
	require.True(t, first.Grow(6))
	first.Commit(tokens, 6)
	require.Equal(t, 3, p.Known(text))
	first.Release()
	require.True(t, second.Grow(6))
	second.Commit(tokens, 6)
	require.True(t, p.NewTable().Grow(6), "the first pages are free")
	require.Equal(t, 3, p.Known(text))
	require.Zero(t, p.Stats().Evicted)
	require.Equal(t, 2, p.Known(p.Prefix([]int32{1, 2, 3, 4, 5, 7, 7})))
}
