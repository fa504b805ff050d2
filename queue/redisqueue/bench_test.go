package redisqueue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

func chatJob(line int) *queue.Job {
	return &queue.Job{
		Batch: "01J9ZQ3V7K0M2N4P6R8T0V2X4Z", Line: line, Sum: fmt.Sprintf("%08x", line), File: "0123456789abcdef",
		CustomID: fmt.Sprint("row-", line), Endpoint: openai.Chat,
		Body: []byte(fmt.Sprintf(`{"model":"default","messages":[{"role":"system","content":"You are a helpful assistant."},`+
			`{"role":"user","content":"What is the number after %d?"}],"max_tokens":64,"temperature":0}`, line)),
		EnqueuedMS: time.Now().UnixMilli(), TimeoutMS: 3_600_000, MaxAttempts: 5,
	}
}

// chatResult returns the result of a job with an answer of 64 characters.
func chatResult(b testing.TB, j *queue.Job) queue.Result {
	b.Helper()
	r, err := openai.ParseRequest(j.Endpoint, j.Body)
	require.NoError(b, err)
	answer := generation.Completion{
		Choices: []generation.Choice{{Text: strings.Repeat("a word, ", 8), FinishReason: generation.FinishStop}},
		Stats:   generation.Stats{PromptTokens: 30, CompletionTokens: 16, Steps: 17, BatchMean: 31.7, TTFT: 31 * time.Millisecond, Total: time.Second},
	}
	return queue.Answered(j, r, []generation.Completion{answer}, time.Now(), queue.Stats{QueueWaitMS: 123456, Attempts: 1, Origin: queue.Origin{
		Worker: "mac-studio-3:12345", Backend: "metal", Device: "Apple M3 Ultra", Model: "glm-4.7-flash", ModelSHA256: strings.Repeat("0", 64), Version: "v1.2.3",
	}})
}

func usedMemory(b testing.TB, c *redis.Client) int {
	b.Helper()
	info, err := c.InfoMap(b.Context(), "memory").Result()
	require.NoError(b, err)
	n, err := strconv.Atoi(info["Memory"]["used_memory_dataset"])
	require.NoError(b, err)
	return n
}

// BenchmarkBytesPerRow reports the memory that Redis takes for a row with a chat of 200 bytes and
// an answer of 64 bytes: while the row waits for a worker, while its result waits for a collector,
// and after the collector has stored the result. The entry that remains then prevents a second
// recording, and lets collectors compare outputs with the batch.
func BenchmarkBytesPerRow(b *testing.B) {
	const n = 50_000
	r := redistest.Start(b)
	require.NoError(b, r.Client.ConfigSet(b.Context(), "appendfsync", "no").Err())
	q := redisqueue.New(r.Client)
	perRow := func(before int) float64 { return float64(usedMemory(b, r.Client)-before) / n }
	for b.Loop() {
		require.NoError(b, r.Client.FlushAll(b.Context()).Err())
		empty := usedMemory(b, r.Client)
		batch := chatJob(1).Batch
		_, _, err := q.Create(b.Context(), queue.Batch{ID: batch, Alias: "m", Priority: queue.Default, Retention: time.Hour})
		require.NoError(b, err)
		jobs := make([]*queue.Job, n)
		for i := range jobs {
			jobs[i] = chatJob(i + 1)
		}
		_, err = q.Add(b.Context(), "m", queue.Default, jobs)
		require.NoError(b, err)
		b.ReportMetric(perRow(empty), "pending-B/row")

		require.NoError(b, r.Client.FlushAll(b.Context()).Err()) // as if workers had taken all rows
		_, _, err = q.Create(b.Context(), queue.Batch{ID: batch, Alias: "m", Priority: queue.Default, Retention: time.Hour})
		require.NoError(b, err)
		for _, j := range jobs {
			_, err := q.Record(b.Context(), batch, chatResult(b, j))
			require.NoError(b, err)
		}
		b.ReportMetric(perRow(empty), "done-B/row")

		for after := ""; ; {
			rows, err := q.Read(b.Context(), batch, queue.Page{After: after, Count: 1000, Want: func(queue.Recording) bool { return false }})
			require.NoError(b, err)
			if len(rows) == 0 {
				break
			}
			require.NoError(b, q.Discard(b.Context(), batch, rows, false))
			after = rows[len(rows)-1].ID
		}
		b.ReportMetric(perRow(empty), "collected-B/row")
	}
}
