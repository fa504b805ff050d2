package worker

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// BenchmarkQueue passes rows through a queue, a worker with an engine that computes nothing, and a
// collector. Half the time of a row goes into reading and writing its JSON.
func BenchmarkQueue(b *testing.B) {
	for name, open := range map[string]func() queue.Queue{
		"redis": func() queue.Queue {
			r := redistest.Start(b)
			require.NoError(b, r.Client.ConfigSet(b.Context(), "appendfsync", "everysec").Err()) // the default of Redis
			return redisqueue.New(r.Client)
		},
		"memory": func() queue.Queue { return memqueue.New() },
	} {
		b.Run(name, func(b *testing.B) {
			const n = 20_000
			w, err := New(microLlama(b), open(), Config{Concurrency: 32, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(b, err)
			w.generate = func(context.Context, generation.Request) (generation.Completion, error) {
				return generation.Completion{Choices: []generation.Choice{{Text: "An answer of a few words.", FinishReason: generation.FinishStop}}}, nil
			}
			(&bench{queue: w.queue, worker: w}).start(b)
			file := strings.Repeat(`{"messages":[{"role":"user","content":"What is the number after 41?"}],"max_tokens":64}`+"\n", n)
			batches := 0
			for b.Loop() {
				batches++
				id := fmt.Sprint("b", batches)
				_, err := enqueue.Enqueue(b.Context(), w.queue, strings.NewReader(file), enqueue.Options{Batch: id})
				require.NoError(b, err)
				var out bytes.Buffer
				got, err := enqueue.Collect(b.Context(), w.queue, rows.NewOutput(&out, id), enqueue.CollectOptions{Follow: true})
				require.NoError(b, err)
				require.Equal(b, n, got.Written)
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
