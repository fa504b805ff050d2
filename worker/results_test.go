package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// A result waits for room until earlier rows are recorded. The wait can be cancelled.
func TestResultsWaitForRoom(t *testing.T) {
	t.Parallel()
	room := newResultRoom(100)
	first, second := &reservation{room: room}, &reservation{room: room}
	require.NoError(t, first.reserve(t.Context(), 1, 60))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- second.reserve(ctx, 1, 60) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	second.release() // has reserved nothing

	third := &reservation{room: room}
	go func() { ended <- third.reserve(t.Context(), 1, 60) }()
	first.release()
	first.release() // the second release does nothing
	require.NoError(t, <-ended)
	third.release()
	require.True(t, room.semaphore.TryAcquire(100), "all memory is free again")
}

// A row with several prompts reserves the whole room, so that two such rows cannot block each
// other. All its results together must fit into the room.
func TestRowsOfSeveralPromptsTakeAllTheRoom(t *testing.T) {
	t.Parallel()
	room := newResultRoom(100)
	r := &reservation{room: room}
	require.NoError(t, r.reserve(t.Context(), 3, 40))
	require.False(t, room.semaphore.TryAcquire(1))
	require.NoError(t, r.reserve(t.Context(), 3, 40))
	require.ErrorIs(t, r.reserve(t.Context(), 3, 40), generation.ErrBadRequest)
	r.release()
	require.True(t, room.semaphore.TryAcquire(100))

	require.ErrorIs(t, (&reservation{room: room}).reserve(t.Context(), 1, 101), generation.ErrBadRequest)
}
