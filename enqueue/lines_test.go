package enqueue_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Jobs and results with line numbers beyond the batch's file are refused, so that the bitmap of lines stays small.
func TestABatchHasTheLinesOfItsFile(t *testing.T) {
	t.Parallel()
	for file, last := range map[string]int{
		`{"prompt":"a"}`:                                   1,
		"{\"prompt\":\"a\"}\n":                             1,
		"{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\"}":         3,
		"\n\n{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\r\n\n": 5,
	} {
		r := redistest.Start(t)
		q := redisqueue.New(r.Client)
		sum, err := enqueue.Enqueue(t.Context(), q, strings.NewReader(file), enqueue.Options{Batch: "b"})
		require.NoError(t, err)
		require.Equal(t, sum.Rows, sum.Added)
		for _, line := range []int{last + 1, queue.MaxLineNumber} {
			_, err = q.Begin(t.Context(), &queue.Job{Batch: "b", Line: line})
			require.ErrorIs(t, err, queue.ErrNoRow, file)
			_, err = q.Record(t.Context(), "b", queue.Result{Line: line, Sum: "00000000", Text: []byte("{}")})
			require.ErrorIs(t, err, queue.ErrNoRow, file)
		}
		_, err = q.Record(t.Context(), "b", queue.Result{Line: last, Sum: "00000000", Text: []byte("{}")})
		require.NoError(t, err, file)
		require.LessOrEqual(t, r.Client.StrLen(t.Context(), "ingot:{b}:done").Val(), int64(1))
	}
}

// Queueing the same file again with MixModels lets the existing batch mix models from then on.
func TestMixModelsIsOfTheBatch(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	q := redisqueue.New(r.Client)
	for _, mix := range []bool{false, true} {
		_, err := enqueue.Enqueue(t.Context(), q, strings.NewReader("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}"), enqueue.Options{Batch: "b", MixModels: mix})
		require.NoError(t, err)
		_, err = q.Record(t.Context(), "b", queue.Result{Line: 1, Sum: "00000000", Text: []byte("{}"), Pin: "one"})
		require.NoError(t, err)
		_, err = q.Begin(t.Context(), &queue.Job{Batch: "b", Line: 2, Pin: "two"})
		if mix {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, queue.ErrOtherModel)
		}
	}
}
