package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
)

// answering returns a worker whose model file has the given hash and whose answers are text.
func answering(t *testing.T, q queue.Queue, hash, text string) *bench {
	t.Helper()
	b := setUp(t, q, func(context.Context, generation.Request) (generation.Completion, error) {
		return generation.Completion{Choices: []generation.Choice{{Text: text, FinishReason: generation.FinishStop}}}, nil
	}, Config{Concurrency: 2})
	b.worker.model.sha256 = func(context.Context) (string, error) { return hash, nil }
	b.worker.model.hash.Store(&hash)
	b.worker.refusals.pause = 200 * time.Millisecond
	return b
}

// Workers with different model files under one alias do not mix their answers. The worker whose
// model did not give the first answer leaves the rows to the other worker and logs the reason once.
func TestAnotherModelLeavesTheRows(t *testing.T) {
	queuetest.OnEach(t, func(t *testing.T, q queue.Queue) {
		right, wrong := answering(t, q, strings.Repeat("a", 64), "right"), answering(t, q, strings.Repeat("b", 64), "wrong")
		var log bytes.Buffer
		wrong.worker.log = slog.New(slog.NewJSONHandler(&log, nil))
		right.enqueue(t, prompts(30), enqueue.Options{MaxAttempts: 1})
		j := &queue.Job{Batch: "b", Line: 1, Sum: "00000001", CustomID: "row-1"}
		_, err := q.Record(t.Context(), "b", queue.Answered(j, new(openai.Request), nil, time.Now(), queue.Stats{Origin: queue.Origin{ModelSHA256: strings.Repeat("a", 64)}}))
		require.NoError(t, err)

		stopWrong := wrong.start(t)
		require.Eventually(t, func() bool {
			wrong.worker.refusals.mu.Lock()
			defer wrong.worker.refusals.mu.Unlock()
			return len(wrong.worker.refusals.logged) > 0
		}, time.Minute, time.Millisecond)
		stopRight := right.start(t)
		rows := right.results(t)
		stopWrong()
		stopRight()
		require.Len(t, rows, 30)
		for name, row := range rows {
			require.Nil(t, row.Error, name)
			if name != "row-1" {
				require.Equal(t, "right", row.Response.Body.Choices[0].Text, name)
				require.Equal(t, strings.Repeat("a", 64), row.Stats.ModelSHA256)
			}
		}
		refused := 0
		for line := range strings.Lines(log.String()) {
			var entry struct{ Level, Msg, Batch string }
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			if strings.Contains(entry.Msg, "refused a row: its batch has answers of another model") {
				require.Equal(t, "b", entry.Batch)
				refused++
			}
		}
		require.Equal(t, 1, refused)
		right.requireEmptyQueue(t)
	})
}
