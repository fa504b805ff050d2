package serve

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Bodies that do not fit all at once are read one after another: none waits for ever for another,
// and together they never take more than the room.
func TestRoomIsShared(t *testing.T) {
	t.Parallel()
	const size, largest, bodies = 100, 20, 200
	r := newRoom(size, largest, time.Minute)
	var taken, highest atomic.Int64
	var reading sync.WaitGroup
	for i := range bodies {
		reading.Go(func() {
			of := rand.New(rand.NewPCG(1, uint64(i)))
			s := r.share()
			held := int64(0)
			for length := 1 + of.Int64N(largest); held < length; {
				n := min(1+of.Int64N(5), length-held)
				if err := s.take(t.Context(), n); err != nil {
					t.Errorf("body %d: %v", i, err)
					break
				}
				held += n
				for now := taken.Add(n); ; {
					before := highest.Load()
					if now <= before || highest.CompareAndSwap(before, now) {
						break
					}
				}
			}
			taken.Add(-held)
			s.giveBack()
		})
	}
	reading.Wait()
	require.LessOrEqual(t, highest.Load(), int64(size))
	require.Equal(t, int64(size), r.free)
}

func TestRoomIsFull(t *testing.T) {
	t.Parallel()
	r := newRoom(10, 4, time.Minute)
	a, b, c := r.share(), r.share(), r.share()
	require.NoError(t, a.take(t.Context(), 6))
	require.NoError(t, b.take(t.Context(), 3)) // b takes from the room that is left for one body
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.take(cancelled, 1), context.Canceled)
	require.ErrorIs(t, c.take(cancelled, 1), context.Canceled)
	require.NoError(t, b.take(cancelled, 1), "b may take all of it")
	r.wait = time.Millisecond
	var busy *httpError
	require.ErrorAs(t, c.take(t.Context(), 1), &busy)
	require.Equal(t, 429, busy.status)
	require.Positive(t, busy.retry)

	r.wait = time.Minute
	waiting := make(chan error, 1)
	go func() { waiting <- c.take(t.Context(), 4) }()
	b.giveBack()
	require.NoError(t, <-waiting, "c is now the body for which room is left")
	a.giveBack()
	c.giveBack()
	require.Equal(t, int64(10), r.free)
}
