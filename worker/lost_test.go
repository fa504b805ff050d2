package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/job"
	"github.com/ingot-run/ingot/job/jobtest"
	"github.com/ingot-run/ingot/job/memqueue"
)

// Rows that are left from an earlier batch with the same id are not answered in the new one.
func TestRowsOfAnEarlierBatchAreDropped(t *testing.T) {
	jobtest.OnEach(t, func(t *testing.T, q job.Queue) {
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
	b.worker.log = slog.New(slog.NewTextHandler(&log, nil))
	b.enqueue(t, prompts(5), enqueue.Options{})
	b.enqueue(t, prompts(2), enqueue.Options{Batch: "other", Alias: "other"})
	warned := map[string]bool{}
	require.NoError(t, b.worker.warnOfLost(t.Context(), warned))
	require.Empty(t, log.String())
	for _, alias := range []string{job.DefaultAlias, "other"} {
		jobtest.Take(t, q, alias, job.Default, map[string]int{job.DefaultAlias: 5, "other": 2}[alias])
	}
	for range 2 {
		require.NoError(t, b.worker.warnOfLost(t.Context(), warned))
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "batch=b rows=5")
}
