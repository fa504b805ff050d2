package enqueue_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// Jobs and results with line numbers beyond the batch's file are refused, so that the bitmap of
// lines stays small.
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
		var beyond []*queue.Job
		for _, line := range []int{last + 1, queue.MaxLineNumber} {
			beyond = append(beyond, &queue.Job{
				Batch: "b", Line: line, Sum: "00000000", CustomID: "a", Endpoint: openai.Completions, Body: []byte("{}"), TimeoutMS: 1000, MaxAttempts: 1,
			})
			_, err = q.Record(t.Context(), "b", queue.Result{Line: line, Sum: "00000000", Text: []byte("{}")})
			require.ErrorIs(t, err, queue.ErrNoRow, file)
		}
		_, err = q.Add(t.Context(), queue.DefaultAlias, queue.Default, beyond)
		require.NoError(t, err)
		w := queuetest.Hold(t, q, queue.DefaultAlias)
		for range sum.Rows + len(beyond) {
			if row := w.Next(t); row.Line > last {
				require.ErrorIs(t, row.Refused, queue.ErrNoRow, file)
			} else {
				require.NoError(t, row.Refused, file)
			}
		}
		w.Stop()
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
		ctx, stop := context.WithCancel(t.Context())
		var begun error
		take := func(d *queue.Delivery, refused error) {
			if d.Line == 2 {
				begun = refused
				stop()
			}
		}
		err = q.Serve(ctx, queue.ServeOptions{
			Alias: queue.DefaultAlias, Concurrency: 1, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Pin:     func() string { return "two" },
			Refused: func(_ context.Context, d *queue.Delivery, reason error) { take(d, reason) },
		}, func(_ context.Context, d *queue.Delivery) queue.Outcome {
			take(d, nil)
			return queue.HandBack()
		})
		require.NoError(t, err)
		if mix {
			require.NoError(t, begun)
		} else {
			require.ErrorIs(t, begun, queue.ErrOtherModel)
		}
	}
}

// Scripts read the summary that ingot enqueue prints.
func TestNamesOfSummaries(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(enqueue.Summary{Batch: "b", Total: 1, Rows: 2, Added: 3, Known: 4, Rejected: 5, Models: map[string]int{"m": 6}})
	require.NoError(t, err)
	require.JSONEq(t, `{"batch":"b", "total":1, "rows":2, "added":3, "known":4, "rejected":5, "models":{"m":6}}`, string(text))
}
