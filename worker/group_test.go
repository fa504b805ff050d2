package worker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

// newTestGroup makes a group of two workers, each with its own engine, as on two devices.
func newTestGroup(t *testing.T, q *redisqueue.Queue) *Group {
	t.Helper()
	g, err := NewGroup([]Device{{0, microLlama(t)}, {3, microLlama(t)}}, q, Config{
		Name: "host:1", Concurrency: 2, ShutdownTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return g
}

// Both devices take rows, and results, metrics and the list of workers name the device.
func TestDevicesShareTheJobs(t *testing.T) {
	t.Parallel()
	q := redisqueue.New(redistest.Start(t).Client)
	g := newTestGroup(t, q)
	var both sync.WaitGroup // done when both devices run a row
	both.Add(len(g.workers))
	for _, w := range g.workers {
		generate, first := w.generate, sync.OnceFunc(both.Done)
		w.generate = func(ctx context.Context, r generation.Request) (generation.Completion, error) {
			first()
			both.Wait()
			return generate(ctx, r)
		}
	}
	b := &bench{queue: q}
	b.enqueue(t, prompts(40), enqueue.Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	rows := map[string]int{}
	for _, line := range b.results(t) {
		require.Nil(t, line.Error)
		rows[line.Stats.Worker]++
	}
	require.Len(t, rows, 2)
	require.Equal(t, 40, rows["host:1/0"]+rows["host:1/3"])
	fleet, err := q.Fleet(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"host:1/0", "host:1/3"}, []string{fleet[0].Name, fleet[1].Name})

	server := httptest.NewServer(g.Handler())
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	code, text := get("/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `ingot_engine_cache_pages{device="0"}`)
	require.Contains(t, text, `ingot_jobs_total{device="3",outcome="done"}`)
	require.Contains(t, text, "\ngo_goroutines ")
	code, _ = get("/readyz")
	require.Equal(t, http.StatusOK, code)
	g.workers[1].pulse.recorded(time.Now().Add(-time.Hour), errors.New("no disk"))
	code, text = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "host:1/3: ")
	stop()
	require.NoError(t, <-ended)
}

// If the engine of one device fails, the group stops with that error, and all its unfinished rows
// return to the queue.
func TestADeviceThatFailsEndsTheWorker(t *testing.T) {
	t.Parallel()
	q := redisqueue.New(redistest.Start(t).Client)
	g := newTestGroup(t, q)
	for _, w := range g.workers {
		w.generate = func(context.Context, generation.Request) (generation.Completion, error) {
			return generation.Completion{}, generation.ErrEngineFailed
		}
	}
	b := &bench{queue: q}
	b.enqueue(t, prompts(8), enqueue.Options{})
	require.ErrorIs(t, g.Run(t.Context()), generation.ErrEngineFailed)
	s, err := q.Status(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{s.Done, s.Failed})
}

// The number of the device is part of names and metrics only if there are several devices.
func TestAWorkerOfOneDevice(t *testing.T) {
	t.Parallel()
	c := Config{Name: "host:1", Logger: slog.New(slog.DiscardHandler)}
	g, err := NewGroup([]Device{{3, microLlama(t)}}, memqueue.New(), c)
	require.NoError(t, err)
	require.Equal(t, "host:1", g.workers[0].config.Name)
	metrics, err := g.registry.Gather()
	require.NoError(t, err)
	require.NotEmpty(t, metrics)
	for _, family := range metrics {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				require.NotEqual(t, "device", label.GetName(), family.GetName())
			}
		}
	}
	require.NoError(t, g.each(func(*Worker, context.Context) error { return nil })(t.Context()))
	failed := errors.New("no disk")
	require.Equal(t, failed, g.each(func(*Worker, context.Context) error { return failed })(t.Context()), "without the worker's name")
}
