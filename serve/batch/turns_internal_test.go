package batch

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnsGoToTheOldest(t *testing.T) {
	t.Parallel()
	turns := newTurns(2)
	require.NoError(t, turns.take(t.Context(), "d"))
	require.NoError(t, turns.take(t.Context(), "e"))
	began := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	waits := func(ctx context.Context, id string, waiting int) {
		go func() {
			if turns.take(ctx, id) == nil {
				began <- id
			} else {
				began <- "not " + id
			}
		}()
		require.Eventually(t, func() bool {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return len(turns.waiting) == waiting
		}, time.Minute, time.Millisecond)
	}
	waits(t.Context(), "c", 1)
	waits(t.Context(), "a", 2)
	waits(ctx, "b", 3)
	cancel()
	require.Equal(t, "not b", <-began)
	turns.giveBack()
	require.Equal(t, "a", <-began)
	turns.giveBack()
	require.Equal(t, "c", <-began)
	turns.giveBack()
	turns.giveBack()
	require.Equal(t, 2, turns.free)

	// A turn that begins while the batch is stopped is not lost.
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 100 {
		if turns.take(stopped, "f") == nil {
			turns.giveBack()
		}
	}
	require.Equal(t, 2, turns.free)
}

// The order of the calls has no effect on the order of the turns.
func TestTurnsAreInTheOrderOfCreation(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"abc", "acb", "bac", "bca", "cab", "cba"} {
		turns := newTurns(0)
		began := make(chan string)
		for i, id := range strings.Split(order, "") {
			go func() {
				if turns.take(t.Context(), id) == nil {
					began <- id
				}
			}()
			require.Eventually(t, func() bool {
				turns.mu.Lock()
				defer turns.mu.Unlock()
				return len(turns.waiting) == i+1
			}, time.Minute, time.Millisecond)
		}
		for _, id := range []string{"a", "b", "c"} {
			turns.giveBack()
			require.Equal(t, id, <-began, order)
		}
	}
}

// A stopped batch does not wait any more, whatever its place is.
func TestStoppedBatchesDoNotWait(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, id := range []string{"a", "c", "e"} {
		turns := turns{waiting: []waiter{{"b", make(chan struct{})}, {"d", make(chan struct{})}}}
		require.ErrorIs(t, turns.take(stopped, id), context.Canceled)
		require.Len(t, turns.waiting, 2, id)
		require.Zero(t, turns.free)
	}
}

// A turn that begins just when its batch is stopped goes to the batch that waits next.
func TestTurnsOfStoppedBatches(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 50 {
		next := waiter{"b", make(chan struct{})}
		turns := turns{free: 1, waiting: []waiter{next}}
		if turns.take(stopped, "a") == nil {
			turns.giveBack()
		}
		select {
		case <-next.turn:
		default:
			t.Fatal("the turn was lost")
		}
		require.Zero(t, turns.free)
	}
}
