package queuetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// under returns a job of a row that names a model alias.
func under(alias string, line int) *queue.Job {
	j := newJob(line)
	j.Alias = alias
	return j
}

// addUnder queues rows 1 to n of batch "b". The even rows name alias "other".
func addUnder(t testing.TB, q queue.Queue, n int, deadline time.Time) {
	t.Helper()
	jobs := map[string][]*queue.Job{}
	for line := 1; line <= n; line++ {
		j := newJob(line)
		if line%2 == 0 {
			j = under("other", line)
		}
		if !deadline.IsZero() {
			j.DeadlineMS = deadline.UnixMilli()
		}
		jobs[j.Alias] = append(jobs[j.Alias], j)
	}
	add(t, q, queue.Bulk, jobs[""]...)
	added, err := q.Add(t.Context(), "other", queue.Bulk, jobs["other"])
	require.NoError(t, err)
	require.NotContains(t, added, false)
}

// Workers of each alias get the rows of that alias, and the batch ends with the last row of any
// alias.
func TestABatchHasRowsOfSeveralAliases(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 20
		create(t, q)
		addUnder(t, q, n, time.Time{})
		require.NoError(t, q.Seal(t.Context(), "b", n, fileSHA))
		require.Equal(t, []string{"m", "other"}, status(t, q).Aliases())
		for i, alias := range []string{"m", "other"} {
			tally := newTally()
			stop := serve(t, q, queue.ServeOptions{Alias: alias, Concurrency: 3, ShutdownTimeout: maxWait}, tally.handle(func(ctx context.Context, j *queue.Delivery) queue.Outcome {
				r := result(j.Line, false)
				r.Pin, r.Alias = "pin of "+alias, j.Alias
				_, err := j.Record(ctx, r)
				require.NoError(t, err)
				return queue.Done()
			}))
			tally.wait(t, n/2)
			stop()
			for id := range tally.counts() {
				even := strings.ContainsAny(id[len(id)-1:], "02468")
				require.Equal(t, i == 1, even, id)
			}
			require.Equal(t, i == 1, status(t, q).State == queue.Completed)
		}
		s := status(t, q)
		require.Equal(t, []int{n, 0}, []int{s.Done, s.Running})
		require.Equal(t, []queue.Model{{Alias: "m", Pin: "pin of m"}, {Alias: "other", Pin: "pin of other"}}, s.Models)
	})
}

func TestABatchKeepsHowRowsFindTheirModels(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		for _, by := range []bool{false, true} {
			id := map[bool]string{false: "one", true: "several"}[by]
			_, created, err := q.Create(t.Context(), queue.Batch{ID: id, Alias: "m", Priority: queue.Bulk, Retention: time.Hour, ByModel: by})
			require.NoError(t, err)
			require.True(t, created)
			known, _, err := q.Create(t.Context(), queue.Batch{ID: id, Alias: "m", Priority: queue.Bulk, Retention: time.Hour, ByModel: !by})
			require.NoError(t, err)
			require.Equal(t, by, known.ByModel)
		}
	})
}

// The first answer to a row of an alias pins the alias to its model. Other aliases of the batch are
// not affected.
func TestEachAliasHasItsOwnPin(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		workers := map[string]*Worker{"": Hold(t, q, "m"), "other": Hold(t, q, "other")}
		begin := func(alias, pin string, line int, want error) {
			t.Helper()
			requireBegun(t, q, workers[alias], pin, under(alias, line), want)
		}
		answer := func(alias, pin string, line int) error {
			r := answerBy(pin, line)
			r.Alias = alias
			_, err := q.Record(t.Context(), "b", r)
			return err
		}
		begin("", "one", 1, nil)
		require.NoError(t, answer("", "one", 1))
		begin("other", "two", 2, nil)
		require.NoError(t, answer("other", "two", 2))
		require.Equal(t, []queue.Model{{Alias: "m", Pin: "one"}, {Alias: "other", Pin: "two"}}, status(t, q).Models)
		for _, wrong := range []struct{ alias, pin string }{{"", "two"}, {"other", "one"}} {
			begin(wrong.alias, wrong.pin, 3, queue.ErrOtherModel)
			require.ErrorIs(t, answer(wrong.alias, wrong.pin, 3), queue.ErrOtherModel)
		}
		begin("other", "two", 4, nil)
		require.NoError(t, answer("", "one", 3))
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, MixModels: true})
		require.NoError(t, err)
		begin("other", "one", 4, nil)
		require.NoError(t, answer("other", "one", 4))
		require.Equal(t, []queue.Model{{Alias: "m", Pin: "one"}, {Alias: "other", Pin: "two"}}, status(t, q).Models)
	})
}

func TestCancelRemovesRowsOfAllAliases(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 500
		create(t, q)
		addUnder(t, q, n, time.Time{})
		_, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		Take(t, q, "m", queue.Bulk, 0)
		Take(t, q, "other", queue.Bulk, 0)
	})
}

// A producer that has not noticed that its batch was cancelled or purged adds no more rows, not
// even of a new alias.
func TestClosedBatchesTakeNoRows(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		refused := func(want error) {
			t.Helper()
			for _, alias := range []string{"m", "other"} {
				added, err := q.Add(t.Context(), alias, queue.Bulk, []*queue.Job{newJob(2), newJob(3)})
				require.ErrorIs(t, err, want)
				require.Equal(t, []bool{false, false}, added)
				Take(t, q, alias, queue.Bulk, 0)
			}
		}
		refused(queue.ErrNoBatch)
		add(t, q, queue.Bulk, newJob(1))
		_, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		refused(queue.ErrCancelled)
		require.NoError(t, q.Purge(t.Context(), "b"))
		refused(queue.ErrNoBatch)
	})
}

// A row that a worker has taken is not begun if its batch was cancelled or purged meanwhile.
func TestRowsOfClosedBatchesAreNotBegun(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		admit, refused := make(chan chan struct{}), make(chan error, 1)
		serve(t, q, queue.ServeOptions{
			Concurrency: 1,
			Admit: func(_ context.Context, _ *queue.Delivery, wait bool) (func(), bool) {
				if wait {
					closed := make(chan struct{})
					admit <- closed
					<-closed
				}
				return func() {}, wait
			},
			Refused: func(_ context.Context, _ *queue.Delivery, reason error) { refused <- reason },
		}, func(context.Context, *queue.Delivery) queue.Outcome {
			refused <- nil
			return queue.Done()
		})
		for line, want := range []error{nil, queue.ErrCancelled, queue.ErrNoBatch} {
			add(t, q, queue.Bulk, newJob(line+1))
			closed := receive(t, admit, "the row waits for admission")
			if want != nil {
				_, err := q.Cancel(t.Context(), "b")
				require.NoError(t, err)
			}
			if line == 2 {
				require.NoError(t, q.Purge(t.Context(), "b"))
			}
			close(closed)
			require.ErrorIs(t, receive(t, refused, fmt.Sprint("the row is begun or refused: ", want)), want)
			if line == 1 {
				require.NoError(t, q.Purge(t.Context(), "b"))
			}
		}
	})
}

func TestOverdueRowsOfAllAliasesExpire(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		const n = 6
		deadline := time.Now().Add(-time.Minute)
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, Deadline: deadline})
		require.NoError(t, err)
		addUnder(t, q, n, deadline)
		require.NoError(t, q.Seal(t.Context(), "b", n, fileSHA))
		expired, err := q.Expire(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, n, expired)
		require.Equal(t, queue.Completed, status(t, q).State)
		Take(t, q, "m", queue.Bulk, 0)
		Take(t, q, "other", queue.Bulk, 0)
	})
}

func TestNoRowIsLostWhileAnAliasHasRows(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		addUnder(t, q, 2, time.Time{})
		require.NoError(t, q.Seal(t.Context(), "b", 2, fileSHA))
		lost := func() int {
			t.Helper()
			n, err := q.Missing(t.Context(), status(t, q))
			require.NoError(t, err)
			return n
		}
		Take(t, q, "m", queue.Bulk, 1)
		require.Zero(t, lost(), "the other alias has a row")
		Take(t, q, "other", queue.Bulk, 1)
		require.Equal(t, 2, lost())
		add(t, q, queue.Bulk, newJob(1))
		require.Zero(t, lost())
	})
}

// If all rows of a batch name other aliases, the batch's own alias is not among the aliases of its
// rows.
func TestAnAliasWithoutRowsIsNotOfTheBatch(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		_, err := q.Add(t.Context(), "other", queue.Bulk, []*queue.Job{under("other", 1)})
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, status(t, q).Aliases())
		require.Equal(t, "m", status(t, q).Alias)
	})
}

func TestRowsOfAnAliasAreQueuedOnce(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		for i := range 2 {
			added, err := q.Add(t.Context(), "other", queue.Bulk, []*queue.Job{under("other", 1)})
			require.NoError(t, err)
			require.Equal(t, []bool{i == 0}, added)
		}
		got := Take(t, q, "other", queue.Bulk, 1)
		require.Equal(t, under("other", 1), got[0])
	})
}

func TestCancelEndsDeliveriesOfAllAliases(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		addUnder(t, q, 2, time.Time{})
		ended := make(chan int, 2)
		for _, alias := range []string{"m", "other"} {
			serve(t, q, queue.ServeOptions{Alias: alias, Concurrency: 1, ShutdownTimeout: maxWait}, func(ctx context.Context, j *queue.Delivery) queue.Outcome {
				<-ctx.Done()
				ended <- j.Line
				return queue.Interrupted(context.Cause(ctx))
			})
		}
		eventually(t, "both rows run", func() bool { return status(t, q).Running == 2 })
		// asynq may not listen for cancellations yet, so the call is repeated.
		eventually(t, "deliveries have ended", func() bool {
			_, err := q.Cancel(t.Context(), "b")
			require.NoError(t, err)
			return len(ended) == 2
		})
		require.ElementsMatch(t, []int{1, 2}, []int{<-ended, <-ended})
	})
}
