package enqueue_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
)

// watched counts the calls of WatchWorkers, and those that have ended.
type watched struct {
	queue.Queue
	calls, ended atomic.Int64
}

func (w *watched) WatchWorkers(ctx context.Context, _ *slog.Logger) {
	w.calls.Add(1)
	<-ctx.Done()
	for range 1000 {
		runtime.Gosched() // whoever does not wait for the end goes on now
	}
	w.ended.Add(1)
}

// Dead workers are looked for while a batch is watched or followed, and no longer.
func TestDeadWorkersAreLookedForWhileABatchIsWatched(t *testing.T) {
	t.Parallel()
	q := &watched{Queue: memqueue.New()}
	makeBatch(t, q)
	finish(t, q, 1)
	require.NoError(t, q.Seal(t.Context(), "b", 1, ""))
	states := 0
	require.NoError(t, enqueue.Watch(t.Context(), q, "b", func(queue.Status) { states++ }))
	require.Equal(t, 1, states)
	require.Equal(t, []int64{1, 1}, []int64{q.calls.Load(), q.ended.Load()})

	for calls, follow := range []bool{false, true} {
		out, err := rows.OpenOutput(filepath.Join(t.TempDir(), "out.jsonl"), "b")
		require.NoError(t, err)
		c, err := enqueue.Collect(t.Context(), q, out, enqueue.CollectOptions{Follow: follow})
		require.NoError(t, err)
		require.True(t, c.Finished)
		require.NoError(t, out.Close())
		require.Equal(t, []int64{int64(1 + calls), int64(1 + calls)}, []int64{q.calls.Load(), q.ended.Load()})
	}
}
