package queuetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// Begin and Record refuse a line number that is larger than the number of lines of the file.
func TestABatchHasTheLinesOfItsFile(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, Lines: 3})
		require.NoError(t, err)
		w := Hold(t, q, "m")
		for _, line := range []int{4, queue.MaxLineNumber} {
			require.ErrorIs(t, begin(t, q, w, newJob(line)).Refused, queue.ErrNoRow)
			_, err := q.Record(t.Context(), "b", result(line, true))
			require.ErrorIs(t, err, queue.ErrNoRow)
		}
		beginLine(t, q, w, 3, 1).End(queue.Done())
		require.True(t, record(t, q, result(3, false)))
		recorded, err := q.Recorded(t.Context(), "b")
		require.NoError(t, err)
		require.LessOrEqual(t, len(recorded), 1)
	})
}

// requireBegun queues a row for a worker whose model has a pin. It checks that the row is begun or,
// if want is not nil, refused. A row that is begun leaves the queue; a row that is refused is
// delivered again every second.
func requireBegun(t testing.TB, q queue.Queue, w *Worker, pin string, j *queue.Job, want error) {
	t.Helper()
	w.Pin.Store(&pin)
	eventually(t, fmt.Sprintf("line %d of alias %s: %v", j.Line, w.alias, want), func() bool {
		_, _ = q.Add(t.Context(), w.alias, queue.Bulk, []*queue.Job{j}) // it fails while an earlier delivery is running
		select {
		case h := <-w.taken:
			if h.Refused == nil {
				h.End(queue.Done())
			}
			return h.Line == j.Line && errors.Is(h.Refused, want)
		default:
			return false
		}
	})
}

func answerBy(pin string, line int) queue.Result {
	r := result(line, false)
	r.Pin = pin
	return r
}

// After its first answer a batch refuses answers of other models. An error does not pin the batch
// to a model, and errors are accepted from any worker.
func TestTheFirstAnswerPinsTheModel(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		w := Hold(t, q, "m")
		for line, pin := range map[int]string{1: "one", 2: "two"} {
			requireBegun(t, q, w, pin, newJob(line), nil)
		}
		require.True(t, record(t, q, result(9, true)))
		require.Empty(t, status(t, q).Models[0].Pin)
		require.True(t, record(t, q, answerBy("one", 1)))
		require.Equal(t, "one", status(t, q).Models[0].Pin)

		before := status(t, q)
		_, err := q.Record(t.Context(), "b", answerBy("two", 2))
		require.ErrorIs(t, err, queue.ErrOtherModel)
		requireBegun(t, q, w, "two", newJob(3), queue.ErrOtherModel)
		require.Equal(t, before, status(t, q), "a refused answer does not change the batch")

		for _, pin := range []string{"one", ""} { // empty: the worker does not know its model's hash yet
			requireBegun(t, q, w, pin, newJob(3), nil)
		}
		require.True(t, record(t, q, answerBy("one", 2)))
		require.True(t, record(t, q, result(3, true)))
		require.False(t, record(t, q, answerBy("two", 1)), "the row is already recorded")
	})
}

// A row that a worker with another model has refused stays in the queue.
func TestARefusedRowStaysInTheQueue(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		require.True(t, record(t, q, answerBy("one", 1)))
		w := Hold(t, q, "m")
		for _, pin := range []string{"two", "one"} {
			w.Pin.Store(&pin)
			if pin == "two" {
				add(t, q, queue.Bulk, newJob(2))
			}
			h := w.Next(t)
			require.Equal(t, 2, h.Line)
			if pin == "two" {
				require.ErrorIs(t, h.Refused, queue.ErrOtherModel)
				continue
			}
			require.NoError(t, h.Refused)
			h.End(queue.Done())
		}
	})
}

// A row that was passed on and whose batch was cancelled then is not taken.
func TestACancelledRowIsNotPassedOn(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		long := hold(t, q, queue.ServeOptions{Alias: "m", Concurrency: 16, Context: 65})
		other := func(line int) *queue.Job {
			j := newJob(line)
			j.Batch = "other"
			return j
		}
		var busy []*Held
		for line := range 16 { // the longer worker has no free handler
			add(t, q, queue.Bulk, other(line+1))
			busy = append(busy, long.Next(t))
		}
		short := hold(t, q, queue.ServeOptions{Alias: "m", Concurrency: 16, Context: 64})
		create(t, q)
		add(t, q, queue.Bulk, newJob(1))
		short.Next(t).End(queue.PassOn(64, errors.New("too long")))
		add(t, q, queue.Bulk, other(17))
		require.Equal(t, 17, short.Next(t).Line, "the row was passed on")
		_, err := q.Cancel(t.Context(), "b")
		require.NoError(t, err)
		short.Stop() // row 17 returns to the queue
		for _, h := range busy {
			h.End(queue.Done())
		}
		for line := 18; line < 50; line++ {
			add(t, q, queue.Bulk, other(line))
			h := long.Next(t)
			require.Equal(t, "other", h.Batch)
			h.End(queue.Done())
		}
	})
}

// MixModels can be set when a batch is created, or later.
func TestABatchMayMixModels(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		require.True(t, record(t, q, answerBy("one", 1)))
		_, err := q.Record(t.Context(), "b", answerBy("two", 2))
		require.ErrorIs(t, err, queue.ErrOtherModel)
		_, created, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, MixModels: true})
		require.NoError(t, err)
		require.False(t, created)
		requireBegun(t, q, Hold(t, q, "m"), "two", newJob(2), nil)
		require.True(t, record(t, q, answerBy("two", 2)))
		require.Equal(t, "one", status(t, q).Models[0].Pin)

		_, created, err = q.Create(t.Context(), queue.Batch{ID: "mixed", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, MixModels: true})
		require.NoError(t, err)
		require.True(t, created)
		for line, pin := range []string{"one", "two"} {
			first, err := q.Record(t.Context(), "mixed", answerBy(pin, line+1))
			require.NoError(t, err)
			require.True(t, first)
		}
	})
}

// Earlier versions pinned batches without the arithmetic. Any arithmetic of the same model
// continues such a batch, and its first answer completes the pin.
func TestAnEarlierPinIsCompleted(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		w := Hold(t, q, "m")
		require.True(t, record(t, q, answerBy("one/defaults", 1)))
		for _, wrong := range []string{"one/default", "one/defaultsandmore", "two/defaults/f16"} {
			requireBegun(t, q, w, wrong, newJob(2), queue.ErrOtherModel)
		}
		requireBegun(t, q, w, "one/defaults/f16", newJob(2), nil)
		requireBegun(t, q, w, "one/defaults/q4_0", newJob(3), nil)
		require.True(t, record(t, q, answerBy("one/defaults/f16", 2)))
		require.Equal(t, "one/defaults/f16", status(t, q).Models[0].Pin)
		_, err := q.Record(t.Context(), "b", answerBy("one/defaults/q4_0", 3))
		require.ErrorIs(t, err, queue.ErrOtherModel)
		requireBegun(t, q, w, "one/defaults/q4_0", newJob(4), queue.ErrOtherModel)
	})
}

// A row that is passed on goes to a worker with a longer context, and to no other worker while
// there is one. Its attempt does not count.
func TestARowIsPassedOn(t *testing.T) {
	t.Parallel()
	OnEach(t, func(t *testing.T, q queue.Queue) {
		create(t, q)
		long := hold(t, q, queue.ServeOptions{Alias: "m", Concurrency: 16, Context: 65})
		const held = 16
		var busy []*Held
		for line := range held { // the longer worker has no free handler
			add(t, q, queue.Bulk, newJob(line+1))
			busy = append(busy, long.Next(t))
		}
		short := hold(t, q, queue.ServeOptions{Alias: "m", Concurrency: 16, Context: 64})
		add(t, q, queue.Bulk, newJob(100))
		h := short.Next(t)
		require.Equal(t, 1, h.Attempt)
		h.End(queue.PassOn(64, errors.New("too long")))
		add(t, q, queue.Bulk, newJob(101))
		for _, end := range []queue.Outcome{queue.Retry(0, errors.New("again")), queue.Done()} { // a retry of a later row reaches the worker
			h = short.Next(t)
			require.Equal(t, 101, h.Line)
			h.End(end)
		}
		busy[0].End(queue.Done())
		h = long.Next(t)
		require.Equal(t, []int{100, 1}, []int{h.Line, h.Attempt})
		h.End(queue.PassOn(64, errors.New("too long")))
		require.Equal(t, 100, long.Next(t).Line)

		add(t, q, queue.Bulk, newJob(102))
		h = short.Next(t)
		require.Equal(t, 102, h.Line)
		h.End(queue.PassOn(64, errors.New("too long")))
		long.Stop() // no worker has a longer context now
		for lines := map[int]bool{}; len(lines) < held+1; {
			h = short.Next(t)
			require.Equal(t, 1, h.Attempt, h.Line)
			lines[h.Line] = true
			h.End(queue.Done())
		}
		add(t, q, queue.Bulk, newJob(103))
		h = short.Next(t)
		require.Equal(t, 103, h.Line)
		h.End(queue.PassOn(64, errors.New("too long")))
		h = short.Next(t)
		require.Equal(t, []int{103, 1}, []int{h.Line, h.Attempt})
		h.End(queue.Done())
	})
}
