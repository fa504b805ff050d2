package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/redistest"
)

// A batch with archived rows ends: the worker queues them again. It drops those that need no answer any more, and leaves tasks
// that are not jobs.
func TestArchivedRowsAreAnswered(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		b := setUp(t, r, nil, Config{})
		const n = 2*archivePage + 3
		b.enqueue(t, prompts(n), enqueue.Options{})
		b.enqueue(t, prompts(1), enqueue.Options{Batch: "unwanted"})
		_, err := enqueue.Cancel(t.Context(), r.Client, "unwanted")
		require.NoError(t, err)
		foreign, err := asynq.NewClientFromRedisClient(r.Client).EnqueueContext(t.Context(), asynq.NewTask("other", []byte("x")),
			asynq.Queue("default:default"))
		require.NoError(t, err)
		inspector := asynq.NewInspectorFromRedisClient(r.Client)
		archived, err := inspector.ArchiveAllPendingTasks("default:default")
		require.NoError(t, err)
		require.Equal(t, n+2, archived)

		stop := b.start(t)
		require.Len(t, b.results(t), n)
		stop()
		left, err := inspector.ListArchivedTasks("default:default")
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, foreign.ID, left[0].ID)
	})
}

// Rows that are left from an earlier batch with the same id are not answered in the new one.
func TestRowsOfAnEarlierBatchAreDropped(t *testing.T) {
	redistest.Both(t, func(t *testing.T, r *redistest.Server) {
		b := setUp(t, r, nil, Config{})
		b.enqueue(t, prompts(9), enqueue.Options{})
		require.NoError(t, r.Client.Del(t.Context(), "ingot:{b}:meta").Err()) // as when its retention is over
		b.enqueue(t, prompts(2), enqueue.Options{})
		b.start(t)
		require.Len(t, b.results(t), 2)
		require.Eventually(t, func() bool {
			info, err := asynq.NewInspectorFromRedisClient(r.Client).GetQueueInfo("default:default")
			return err == nil && info.Size == 0
		}, time.Minute, time.Millisecond)
		st, err := enqueue.Status(t.Context(), r.Client, "b")
		require.NoError(t, err)
		require.Equal(t, 2, st.Done)
	})
}

func TestLostRowsAreReported(t *testing.T) {
	t.Parallel()
	r := redistest.StartMini(t)
	b := setUp(t, r, nil, Config{})
	var log bytes.Buffer
	b.worker.log = slog.New(slog.NewTextHandler(&log, nil))
	b.enqueue(t, prompts(5), enqueue.Options{})
	b.enqueue(t, prompts(2), enqueue.Options{Batch: "other", Alias: "other"})
	warned := map[string]bool{}
	require.NoError(t, b.worker.warnOfLost(t.Context(), warned))
	require.Empty(t, log.String())
	for _, alias := range []string{job.DefaultAlias, "other"} {
		_, err := asynq.NewInspectorFromRedisClient(r.Client).DeleteAllPendingTasks(job.Queue(alias, job.Default))
		require.NoError(t, err)
	}
	for range 2 {
		require.NoError(t, b.worker.warnOfLost(t.Context(), warned))
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "batch=b rows=5")
}
