package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

func TestTheInboxOfTheLoop(t *testing.T) {
	t.Parallel()
	b := &inbox{wake: make(chan struct{}, 1)}
	first, second := &request{seqs: make([]*sequence, 2)}, &request{seqs: make([]*sequence, 3), interactive: true}
	require.NoError(t, b.put(first))
	require.False(t, b.interactive.Load())
	require.NoError(t, b.put(second))
	require.True(t, b.interactive.Load())
	require.Equal(t, 5, b.sequences())
	require.Len(t, b.wake, 1)
	var taken []int
	take := func() bool { return b.take(func(seqs []*sequence) { taken = append(taken, len(seqs)) }) }
	require.True(t, take())
	require.True(t, take())
	require.Equal(t, []int{2, 3}, taken)
	require.Zero(t, b.sequences())
	require.False(t, b.interactive.Load())
	<-b.wake
	b.close(generation.ErrClosed)
	b.close(generation.ErrEngineFailed)
	require.Len(t, b.wake, 1)
	require.ErrorIs(t, b.put(first), generation.ErrClosed)
	require.Zero(t, b.sequences())
	require.False(t, take())
}
