package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/files/rows"
	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/queuetest"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// microLlama returns a model with random weights that is part of the repository.
func microLlama(t testing.TB) *engine.Engine {
	t.Helper()
	return openModel(t, micro)
}

func openModel(t testing.TB, path string) *engine.Engine {
	t.Helper()
	return openSized(t, path, engine.Options{})
}

func openSized(t testing.TB, path string, opts engine.Options) *engine.Engine {
	t.Helper()
	backend, err := cpu.New(1)
	require.NoError(t, err)
	eng, err := engine.Open(path, backend, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	return eng
}

// bench is a worker and its queue. Tests queue their rows as batch b.
type bench struct {
	queue    queue.Queue
	worker   *Worker
	registry *prometheus.Registry
}

// handler serves the worker's metrics and checks.
func (b *bench) handler() http.Handler { return handler(b.registry, b.worker.ready, b.worker.healthy) }

// setUp makes a worker. If generate is not nil, it replaces the engine's Generate, to inject
// faults.
func setUp(t testing.TB, q queue.Queue, generate func(context.Context, generation.Request) (generation.Completion, error), c Config) *bench {
	t.Helper()
	if c.Concurrency == 0 {
		c.Concurrency = 4
	}
	c.Logger = slog.New(slog.DiscardHandler)
	registry := newRegistry()
	w, err := newWorker(microLlama(t), q, c, registry, newAdmission())
	require.NoError(t, err)
	if generate != nil {
		w.generate = generate
	}
	return &bench{q, w, registry}
}

// onRedis queues rows as batch b on a new Redis server. The returned bench has no worker.
func onRedis(t testing.TB, rows string) (*bench, *redistest.Server) {
	t.Helper()
	r := redistest.Start(t)
	b := &bench{queue: redisqueue.New(r.Client)}
	b.enqueue(t, rows, enqueue.Options{})
	return b, r
}

func (b *bench) enqueue(t testing.TB, rows string, o enqueue.Options) {
	t.Helper()
	if o.Batch == "" {
		o.Batch = "b"
	}
	_, err := enqueue.Enqueue(t.Context(), b.queue, strings.NewReader(rows), o)
	require.NoError(t, err)
}

// start runs the worker until stop is called, which waits for it to end.
func (b *bench) start(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = b.worker.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(func() {
		stop()
		require.NoError(t, err)
	})
	return stop
}

type resultLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		Body struct {
			Seed        int64  `json:"seed"`
			Fingerprint string `json:"system_fingerprint"`
			Choices     []struct {
				Index    int             `json:"index"`
				Text     string          `json:"text"`
				TokenIDs []int32         `json:"token_ids"`
				Logprobs json.RawMessage `json:"logprobs"`
			} `json:"choices"`
			Usage struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
			} `json:"usage"`
		} `json:"body"`
	} `json:"response"`
	Error *openai.Error `json:"error"`
	Stats queue.Stats   `json:"stats"`
}

// results collects batch b to its end and returns its lines by custom_id.
func (b *bench) results(t testing.TB) map[string]resultLine {
	t.Helper()
	var text bytes.Buffer
	got, err := enqueue.Collect(t.Context(), b.queue, rows.NewOutput(&text, "b"), enqueue.CollectOptions{Follow: true})
	require.NoError(t, err)
	require.True(t, got.Finished)
	return decode(t, text.String())
}

func decode(t testing.TB, text string) map[string]resultLine {
	t.Helper()
	rows := map[string]resultLine{}
	for l := range strings.Lines(text) {
		var row resultLine
		require.NoError(t, json.Unmarshal([]byte(l), &row), l)
		require.NotContains(t, rows, row.CustomID)
		rows[row.CustomID] = row
	}
	return rows
}

// waitForQueue waits until the worker has taken every job that is queued now.
func (b *bench) waitForQueue(t testing.TB) {
	t.Helper()
	b.enqueue(t, prompts(1), enqueue.Options{Batch: "last", MaxAttempts: 1})
	var none bytes.Buffer
	_, err := enqueue.Collect(t.Context(), b.queue, rows.NewOutput(&none, "last"), enqueue.CollectOptions{Follow: true})
	require.NoError(t, err)
}

// requireEmptyQueue checks that the queue holds no job.
func (b *bench) requireEmptyQueue(t testing.TB) {
	t.Helper()
	for p := range queue.Priorities() {
		queuetest.Take(t, b.queue, b.worker.config.Alias, p, 0)
	}
}

func prompts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"row-%d\",\"prompt\":[%d,%d,7],\"max_tokens\":5,\"ignore_eos\":true,\"return_token_ids\":true}\n", i+1, 300+i, 400+i)
	}
	return b.String()
}
