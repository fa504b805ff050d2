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
func testNoRow(t *testing.T, q queue.Queue) {
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
func testPin(t *testing.T, q queue.Queue) {
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
}

// MixModels can be set when a batch is created, or later.
func testMixModels(t *testing.T, q queue.Queue) {
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
}
