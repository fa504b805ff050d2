package queuetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// createWeighted creates a batch with a weight and queues n rows for it.
func createWeighted(t testing.TB, q queue.Queue, id string, weight, n int) {
	t.Helper()
	_, created, err := q.Create(t.Context(), queue.Batch{ID: id, Alias: "m", Priority: queue.Default, Retention: time.Hour, Weight: weight})
	require.NoError(t, err)
	require.True(t, created)
	addTo(t, q, id, 1, n)
}

// addTo queues n rows of a batch. line is the line number of the first row.
func addTo(t testing.TB, q queue.Queue, batch string, line, n int) {
	t.Helper()
	jobs := newJobs(line + n - 1)[line-1:]
	for _, j := range jobs {
		j.Batch, j.File = batch, ""
	}
	add(t, q, queue.Default, jobs...)
}

// shares counts the deliveries of each batch in the period in which all batches have rows. The
// period starts with the first delivery of the batch that begins last, and ends with the last
// delivery of the batch that ends first.
func shares(ids []string, batches ...string) map[string]int {
	from, to := 0, len(ids)
	for _, b := range batches {
		first, last := -1, -1
		for i, id := range ids {
			if strings.HasPrefix(id, b+":") {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		from, to = max(from, first), min(to, last+1)
	}
	counts := map[string]int{}
	for _, id := range ids[from:to] {
		batch, _, _ := strings.Cut(id, ":")
		counts[batch]++
	}
	return counts
}

// A batch that is queued after a large one of the same priority shares the workers with the large
// one.
func TestBatchesShareByWeight(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 400
		createWeighted(t, q, "one", 0, n)
		createWeighted(t, q, "same", 1, n)
		createWeighted(t, q, "three", 3, n)
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(nil))
		tally.wait(t, 3*n)
		counts := shares(tally.order(), "one", "same", "three")
		require.InEpsilon(t, counts["one"], counts["same"], 0.1, "%v", counts)
		require.InEpsilon(t, 3*counts["one"], counts["three"], 0.1, "%v", counts)
		require.Len(t, tally.counts(), 3*n)
	})
}

func TestASmallBatchDoesNotWait(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const large, small = 1000, 10
		createWeighted(t, q, "large", 0, large)
		createWeighted(t, q, "small", 0, small)
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(nil))
		tally.wait(t, large+small)
		last := 0
		for i, id := range tally.order() {
			if strings.HasPrefix(id, "small:") {
				last = i
			}
		}
		require.Less(t, last, 200, "deliveries before the last one of the small batch")
	})
}

// A new weight that is given when a batch is queued again applies to its waiting rows.
func TestAWeightCanBeChanged(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 400
		createWeighted(t, q, "one", 0, n)
		createWeighted(t, q, "four", 0, n)
		for _, weight := range []int{4, 0} { // 0 changes nothing
			_, created, err := q.Create(t.Context(), queue.Batch{ID: "four", Alias: "m", Priority: queue.Default, Retention: time.Hour, Weight: weight})
			require.NoError(t, err)
			require.False(t, created)
		}
		s, err := q.Status(t.Context(), "four")
		require.NoError(t, err)
		require.Equal(t, 4, s.Weight)
		tally := newTally()
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(nil))
		tally.wait(t, 2*n)
		counts := shares(tally.order(), "one", "four")
		require.InEpsilon(t, 4*counts["one"], counts["four"], 0.1, "%v", counts)
	})
}

// A batch that is queued a few rows at a time gets no more than its share, even if it has no
// waiting rows at times.
func TestABatchInPartsHasNoMoreTurns(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n, parts = 600, 100
		createWeighted(t, q, "whole", 0, n)
		createWeighted(t, q, "parts", 0, 1)
		tally := newTally()
		next := 2
		serve(t, q, queue.ServeOptions{Concurrency: 1}, tally.handle(func(_ context.Context, j *queue.Delivery) queue.Outcome {
			if j.Batch == "parts" && next <= parts {
				addTo(t, q, "parts", next, 1)
				next++
			}
			return queue.Done()
		}))
		tally.wait(t, n+parts)
		counts := shares(tally.order(), "whole", "parts")
		require.LessOrEqual(t, counts["parts"], counts["whole"]+2, "%v", counts)
	})
}

func TestRowsOfACancelledBatchAreRemoved(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 500
		createWeighted(t, q, "b", 0, n)
		createWeighted(t, q, "other", 0, 3)
		_, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		Take(t, q, "m", queue.Default, 3)
	})
}
