package redisqueue_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// While a model name is paused, workers ask for its rows but get none.
func TestPause(t *testing.T) {
	t.Parallel()
	q := redisqueue.New(redistest.Start(t).Client)
	require.True(t, q.LastFetch().IsZero())
	aliases, err := q.Aliases(t.Context())
	require.NoError(t, err)
	require.Empty(t, aliases)
	create(t, q)
	addJobs(t, q, 1)
	change := func(do func(context.Context, string) (bool, error), want, paused bool) {
		t.Helper()
		changed, err := do(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, want, changed)
		aliases, err := q.Aliases(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"m": paused}, aliases)
	}
	change(q.Resume, false, false)
	change(q.Pause, true, true)
	change(q.Pause, false, true)

	var served atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		err = q.Serve(ctx, queue.ServeOptions{
			Alias: "m", Concurrency: 2, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
		}, func(context.Context, *queue.Delivery) queue.Outcome { served.Add(1); return queue.Done() })
	})
	last := time.Time{}
	for range 5 {
		require.Eventually(t, func() bool { return q.LastFetch().After(last) }, time.Minute, time.Millisecond)
		last = q.LastFetch()
	}
	require.Zero(t, served.Load())
	change(q.Resume, true, false)
	require.Eventually(t, func() bool { return served.Load() == 1 }, time.Minute, time.Millisecond)
	cancel()
	serving.Wait()
	require.NoError(t, err)
}

// An operator can pause a model name, and end the pause, while Redis has no memory left.
func TestPauseWithoutMemory(t *testing.T) {
	t.Parallel()
	r, q := open(t)
	require.NoError(t, r.Client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.ErrorContains(t, r.Client.Set(t.Context(), "x", "y", 0).Err(), "OOM")
	for i, do := range []func(context.Context, string) (bool, error){q.Pause, q.Pause, q.Resume, q.Resume} {
		changed, err := do(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, i%2 == 0, changed)
	}
}
