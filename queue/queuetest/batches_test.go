package queuetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

func TestABatchIsCreatedOnce(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		_, err := q.Status(t.Context(), "b")
		require.ErrorIs(t, err, queue.ErrNoBatch)
		create(t, q)
		known, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "other", Priority: queue.Critical, Retention: time.Minute})
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA}, known)
		s := status(t, q)
		require.WithinDuration(t, time.Now(), s.Created, time.Minute)
		s.Created = time.Time{}
		require.Equal(t, queue.Status{
			Batch: "b", Alias: "m", Models: []queue.Model{{Alias: "m"}}, Priority: queue.Bulk, State: queue.Enqueueing, FileSHA: fileSHA, Weight: 1,
		}, s)

		for _, c := range [][2]int{{3, 3}, {0, 3}, {1, 1}, {0, 1}} {
			_, _, err = q.Create(t.Context(), queue.Batch{ID: "b", Weight: c[0]})
			require.NoError(t, err)
			require.Equal(t, c[1], status(t, q).Weight, "after weight %d", c[0])
		}
	})
}

func TestAnUnknownBatchTakesNothing(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		_, err := q.Record(t.Context(), "b", result(1, false))
		require.ErrorIs(t, err, queue.ErrNoBatch)
		require.ErrorIs(t, q.Seal(t.Context(), "b", 1, ""), queue.ErrNoBatch)
		_, err = q.Cancel(t.Context(), "b")
		require.ErrorIs(t, err, queue.ErrNoBatch)
		require.ErrorIs(t, q.Purge(t.Context(), "b"), queue.ErrNoBatch)
		lines, err := q.Recorded(t.Context(), "b")
		require.NoError(t, err)
		require.False(t, lines.Has(1))
		require.Empty(t, page(t, q, "", 10))
		for _, entries := range []bool{false, true} {
			require.NoError(t, q.Discard(t.Context(), "b", []queue.Recording{{ID: "1", Line: 1}}, entries))
		}
		all, err := q.Batches(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
	})
}

func TestAQueueThatIsReachableAnswers(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) { require.NoError(t, q.Ping(t.Context())) })
}

func TestASealedBatchFinishes(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) { testFinish(t, q, true) })
}

func TestABatchIsSealedLast(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) { testFinish(t, q, false) })
}

// testFinish checks that a batch is finished when it is sealed and all its rows are recorded, in
// either order.
func testFinish(t *testing.T, q queue.Queue, sealFirst bool) {
	create(t, q)
	seal := func() { require.NoError(t, q.Seal(t.Context(), "b", 2, fileSHA)) }
	if sealFirst {
		seal()
	}
	record(t, q, result(1, false))
	s := status(t, q)
	require.Nil(t, s.Finished)
	require.Nil(t, s.Expires, "an unfinished batch does not expire")
	require.Equal(t, sealFirst, s.State == queue.InProgress)
	record(t, q, result(3, true))
	if !sealFirst {
		require.Equal(t, queue.Enqueueing, status(t, q).State)
		seal()
	}
	s = status(t, q)
	require.Equal(t, queue.Completed, s.State)
	require.True(t, s.Ended())
	require.Equal(t, []int{2, 1, 1, 0}, []int{s.Total, s.Done, s.Failed, s.Waiting()})
	require.Equal(t, fileSHA, s.FileSHA)
	require.WithinDuration(t, time.Now(), *s.Finished, time.Minute)
	require.WithinDuration(t, time.Now().Add(time.Hour), *s.Expires, time.Minute)
	require.Len(t, page(t, q, "", 10), 2)
}

func TestAFinishedBatchExpires(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		for _, end := range []func() error{
			func() error { return q.Seal(t.Context(), "b", 1, fileSHA) },
			func() error { _, err := q.Cancel(t.Context(), "b"); return err },
		} {
			_, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: 50 * time.Millisecond})
			require.NoError(t, err)
			require.True(t, created)
			record(t, q, result(1, false))
			require.NoError(t, end())
			eventually(t, "the batch is deleted", func() bool {
				all, err := q.Batches(t.Context())
				return err == nil && len(all) == 0
			})
			_, err = q.Status(t.Context(), "b")
			require.ErrorIs(t, err, queue.ErrNoBatch)
			_, err = q.Record(t.Context(), "b", result(2, false))
			require.ErrorIs(t, err, queue.ErrNoBatch)
			require.Empty(t, page(t, q, "", 10))
		}
	})
}

func TestACancelledBatchTakesNothingMore(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		w := Hold(t, q, "m")
		beginLine(t, q, w, 1, 1).End(queue.Done())
		second := beginLine(t, q, w, 2, 1)
		record(t, q, result(1, false))

		for range 2 { // Seal can be repeated
			finished, err := q.Cancel(t.Context(), "b")
			require.NoError(t, err)
			require.False(t, finished)
		}
		_, err := second.Record(t.Context(), result(2, false))
		require.ErrorIs(t, err, queue.ErrCancelled)
		second.End(queue.Done())
		_, err = q.Record(t.Context(), "b", result(2, false))
		require.ErrorIs(t, err, queue.ErrCancelled)
		require.ErrorIs(t, q.Seal(t.Context(), "b", 3, fileSHA), queue.ErrCancelled)

		s := status(t, q)
		require.Equal(t, queue.Cancelled, s.State)
		require.True(t, s.Ended())
		require.Equal(t, []int{1, 0, 0}, []int{s.Done, s.Failed, s.Running})
		require.WithinDuration(t, time.Now(), *s.Cancelled, time.Minute)
		require.WithinDuration(t, time.Now().Add(time.Hour), *s.Expires, time.Minute)
		require.Len(t, page(t, q, "", 10), 1, "recorded results can be collected")
		known, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, Retention: time.Hour})
		require.NoError(t, err)
		require.False(t, created)
		require.True(t, known.Cancelled)
	})
}

func TestAFinishedBatchCannotBeCancelled(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		record(t, q, result(1, false))
		require.NoError(t, q.Seal(t.Context(), "b", 1, fileSHA))
		finished, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, finished)
		require.Equal(t, queue.Completed, status(t, q).State)
	})
}

func TestOnlyABatchThatHasEndedIsPurged(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		for _, end := range []func() error{
			func() error { return q.Seal(t.Context(), "b", 1, fileSHA) },
			func() error { _, err := q.Cancel(t.Context(), "b"); return err },
		} {
			create(t, q)
			require.ErrorIs(t, q.Purge(t.Context(), "b"), queue.ErrUnfinished)
			record(t, q, result(1, false))
			require.NoError(t, end())
			require.NoError(t, q.Purge(t.Context(), "b"))
			for range 2 {
				_, err := q.Status(t.Context(), "b")
				require.ErrorIs(t, err, queue.ErrNoBatch)
				_, err = q.Record(t.Context(), "b", result(2, false))
				require.ErrorIs(t, err, queue.ErrNoBatch, "a late result does not create the batch again")
				require.Empty(t, page(t, q, "", 10))
			}
		}
	})
}

func TestBatchesAreListedTheNewestFirst(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		var want []string
		for i := range 30 {
			if i%10 == 0 && i > 0 { // batches that were created in the same millisecond are sorted by name
				last := want[len(want)-1]
				eventually(t, "time passes", func() bool {
					s, err := q.Status(t.Context(), last)
					return err == nil && time.Now().After(s.Created.Add(2*time.Millisecond))
				})
			}
			id := fmt.Sprintf("b.%d_-", i)
			_, _, err := q.Create(t.Context(), queue.Batch{ID: id, Alias: "m", Priority: queue.Bulk, Retention: time.Hour})
			require.NoError(t, err)
			want = append(want, id)
		}
		all, err := q.Batches(t.Context())
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(all, func(a, b queue.Status) int { return b.Created.Compare(a.Created) }))
		var got []string
		for _, b := range all {
			got = append(got, b.Batch)
			require.Equal(t, "m", b.Alias)
		}
		require.ElementsMatch(t, want, got)
		require.ElementsMatch(t, want[20:], got[:10])
	})
}

func TestRowsThatAreNeitherQueuedNorRecorded(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		lost := func() int {
			t.Helper()
			n, err := q.Missing(t.Context(), status(t, q))
			require.NoError(t, err)
			return n
		}
		require.Zero(t, lost(), "the batch is still being queued")
		add(t, q, queue.Bulk, newJob(1))
		require.NoError(t, q.Seal(t.Context(), "b", 3, fileSHA))
		require.Zero(t, lost(), "other jobs are in the queue")
		deleted := status(t, q)
		deleted.Batch = "deleted"
		n, err := q.Missing(t.Context(), deleted)
		require.NoError(t, err)
		require.Zero(t, n, "jobs of another batch are in the queue")
		serve(t, q, queue.ServeOptions{Concurrency: 1}, newTally().handle(nil))
		eventually(t, "the queue is empty", func() bool { return lost() == 3 })
		record(t, q, result(1, false))
		require.Equal(t, 2, lost())
		record(t, q, result(2, true))
		record(t, q, result(3, true))
		require.Zero(t, lost())

		require.NoError(t, q.Purge(t.Context(), "b"))
		create(t, q)
		require.NoError(t, q.Seal(t.Context(), "b", 3, fileSHA))
		require.Equal(t, 3, lost())
		before := status(t, q)
		_, err = q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		require.Zero(t, lost(), "nobody waits for rows of a cancelled batch")
		n, err = q.Missing(t.Context(), before)
		require.NoError(t, err)
		require.Zero(t, n, "the batch has been cancelled meanwhile")
		require.NoError(t, q.Purge(t.Context(), "b"))
		_, err = q.Missing(t.Context(), before)
		require.ErrorIs(t, err, queue.ErrNoBatch)
	})
}
