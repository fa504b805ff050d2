package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue"
)

// Begin and Record refuse a line number that is larger than the number of lines of the file.
func testNoRow(t *testing.T, q queue.Queue) {
	_, _, err := q.Create(t.Context(), queue.Batch{ID: "b", Alias: "m", Priority: queue.Bulk, FileSHA: fileSHA, Retention: time.Hour, Lines: 3})
	require.NoError(t, err)
	for _, line := range []int{4, queue.MaxLineNumber} {
		_, err := q.Begin(t.Context(), newJob(line))
		require.ErrorIs(t, err, queue.ErrNoRow)
		_, err = q.Record(t.Context(), "b", result(line, true))
		require.ErrorIs(t, err, queue.ErrNoRow)
	}
	begin(t, q, 3, 1)
	require.True(t, record(t, q, result(3, false)))
	recorded, err := q.Recorded(t.Context(), "b")
	require.NoError(t, err)
	require.LessOrEqual(t, len(recorded), 1)
}

// by returns the job of a row as a worker passes it to Begin: with the pin of the worker's model.
func by(pin string, line int) *queue.Job {
	j := newJob(line)
	j.Pin = pin
	return j
}

func answerBy(pin string, line int) queue.Result {
	r := result(line, false)
	r.Pin = pin
	return r
}

// After its first answer a batch refuses answers of other models. An error does not pin the batch to a model, and errors are accepted
// from any worker.
func testPin(t *testing.T, q queue.Queue) {
	create(t, q)
	for line, pin := range map[int]string{1: "one", 2: "two"} {
		_, err := q.Begin(t.Context(), by(pin, line))
		require.NoError(t, err)
	}
	require.True(t, record(t, q, result(9, true)))
	require.Empty(t, status(t, q).Models[0].Pin)
	require.True(t, record(t, q, answerBy("one", 1)))
	require.Equal(t, "one", status(t, q).Models[0].Pin)

	before := status(t, q)
	_, err := q.Record(t.Context(), "b", answerBy("two", 2))
	require.ErrorIs(t, err, queue.ErrOtherModel)
	_, err = q.Begin(t.Context(), by("two", 3))
	require.ErrorIs(t, err, queue.ErrOtherModel)
	require.Equal(t, before, status(t, q), "a refused answer does not change the batch")

	for _, pin := range []string{"one", ""} { // empty: the worker does not know its model's hash yet
		_, err = q.Begin(t.Context(), by(pin, 3))
		require.NoError(t, err)
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
	_, err = q.Begin(t.Context(), by("two", 2))
	require.NoError(t, err)
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
