package worker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// Rows that are left over from an earlier batch with the same id are not answered in the new batch.
func TestRowsOfAnEarlierBatchAreDropped(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		b := setUp(t, q, nil, Config{})
		b.enqueue(t, prompts(9), enqueue.Options{})
		_, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, q.Purge(t.Context(), "b"))
		b.enqueue(t, prompts(2), enqueue.Options{})
		stop := b.start(t)
		require.Len(t, b.results(t), 2)
		b.waitForQueue(t)
		stop()
		b.requireEmptyQueue(t)
		s, err := q.Status(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, 2, s.Done)
	})
}

func TestLostRowsAreReported(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	b := setUp(t, q, nil, Config{})
	var log bytes.Buffer
	b.worker.batches.log = slog.New(slog.NewTextHandler(&log, nil))
	b.enqueue(t, prompts(5), enqueue.Options{})
	b.enqueue(t, prompts(2), enqueue.Options{Batch: "other", Alias: "other"})
	require.NoError(t, b.worker.batches.inspect(t.Context()))
	require.Empty(t, log.String())
	for _, alias := range []string{queue.DefaultAlias, "other"} {
		queuetest.Take(t, q, alias, queue.Default, map[string]int{queue.DefaultAlias: 5, "other": 2}[alias])
	}
	for range 2 {
		require.NoError(t, b.worker.batches.inspect(t.Context()))
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "batch=b rows=5")
}

// A batch that was deleted after the batches were listed does not keep the others from being
// reported.
func TestLostRowsBesideADeletedBatch(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	b := setUp(t, q, nil, Config{})
	var log bytes.Buffer
	b.worker.batches.log = slog.New(slog.NewTextHandler(&log, nil))
	b.enqueue(t, prompts(3), enqueue.Options{})
	queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 3)
	s, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	deleted := s
	deleted.Batch = "deleted"
	require.NoError(t, b.worker.batches.warnOfMissing(t.Context(), []queue.Status{deleted, s}))
	require.Contains(t, log.String(), "batch=b rows=3")
}

// While rows run or wait in the engine, a worker does not look for lost rows: its own rows may be
// about to be recorded. It looks again as soon as it has none.
func TestLostRowsAreReportedByAnIdleWorker(t *testing.T) {
	t.Parallel()
	q := memqueue.New()
	b := setUp(t, q, nil, Config{})
	var log bytes.Buffer
	var now engine.Snapshot
	b.worker.batches.log = slog.New(slog.NewTextHandler(&log, nil))
	b.worker.batches.snapshot = func() engine.Snapshot { return now }
	b.enqueue(t, prompts(3), enqueue.Options{})
	queuetest.Take(t, q, queue.DefaultAlias, queue.Default, 3)
	for _, busy := range []engine.Snapshot{{Running: 1}, {Waiting: 1}, {Running: 2, Waiting: 2}} {
		now = busy
		require.NoError(t, b.worker.batches.inspect(t.Context()))
		require.Empty(t, log.String(), busy)
	}
	now = engine.Snapshot{}
	require.NoError(t, b.worker.batches.inspect(t.Context()))
	require.Contains(t, log.String(), "batch=b rows=3")
}

// A starting worker records all overdue rows as expired, even those of other model names. A row
// that runs at its deadline is ended and not tried again.
func TestOverdueRowsExpire(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		var generated atomic.Int64
		b := setUp(t, q, func(ctx context.Context, _ generation.Request) (generation.Completion, error) {
			generated.Add(1)
			<-ctx.Done()
			return generation.Completion{}, ctx.Err()
		}, Config{Concurrency: 1})
		b.enqueue(t, prompts(3), enqueue.Options{Deadline: time.Now().Add(500 * time.Millisecond)})
		b.enqueue(t, prompts(2), enqueue.Options{Batch: "other", Alias: "other", Deadline: time.Now().Add(-time.Second)})
		stop := b.start(t) // looks at all batches at once
		lines := b.results(t)
		require.Eventually(t, func() bool {
			s, err := q.Status(t.Context(), "other")
			return err == nil && s.State == queue.Completed && s.Failed == 2
		}, time.Minute, time.Millisecond)
		stop()
		require.Len(t, lines, 3)
		for name, row := range lines {
			require.NotNil(t, row.Error, name)
			require.Equal(t, openai.CodeExpired, row.Error.Code)
			require.Contains(t, row.Error.Message, "not answered before the deadline of its batch, 20")
		}
		require.LessOrEqual(t, generated.Load(), int64(1))
		b.requireEmptyQueue(t)
	})
}
