package worker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/enqueue"
	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/queue/memqueue"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
)

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// The times of results are in seconds, and those of a failed one count only until it was taken.
func TestMetricsOfResults(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, func() engine.Snapshot { return engine.Snapshot{} })
	answered := queue.Stats{QueueWaitMS: 1500, TTFTMS: 250, TotalMS: 3000, BatchMean: 2.5, PromptTokens: 7, CachedTokens: 5, CompletionTokens: 11, DraftTokens: 4, AcceptedTokens: 3}
	m.observe(queue.Result{Stats: answered})
	m.observe(queue.Result{Stats: answered})
	m.observe(queue.Result{Failed: true, Stats: queue.Stats{QueueWaitMS: 4000, TTFTMS: 1, TotalMS: 1, BatchMean: 1, PromptTokens: 1, CompletionTokens: 1}})
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			switch {
			case one.GetHistogram() != nil:
				got[f.GetName()] = one.GetHistogram().GetSampleSum()
			case one.GetCounter() != nil && len(one.GetLabel()) == 0:
				got[f.GetName()] = one.GetCounter().GetValue()
			}
		}
	}
	for name, want := range map[string]float64{
		"ingot_queue_wait_seconds": 7, "ingot_ttft_seconds": 0.5, "ingot_job_seconds": 6, "ingot_job_batch_mean": 5,
		"ingot_prompt_tokens_total": 14, "ingot_cached_tokens_total": 10, "ingot_completion_tokens_total": 22,
		"ingot_draft_tokens_total": 8, "ingot_accepted_tokens_total": 6,
	} {
		require.InDelta(t, want, got[name], 1e-9, name)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), nil, Config{})
	b.enqueue(t, prompts(10)+"{\"prompt\":[999999]}\n", enqueue.Options{})
	stop := b.start(t)
	b.results(t)
	stop()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	server := httptest.NewServer(b.handler())
	defer server.Close()
	code, text := get(t, server.URL+"/metrics")
	require.Equal(t, http.StatusOK, code)
	for _, line := range []string{
		`ingot_jobs_total{outcome="done"} 10`,
		`ingot_jobs_total{outcome="failed"} 1`,
		`ingot_jobs_total{outcome="retried"} 0`,
		"ingot_prompt_tokens_total 30",
		"ingot_completion_tokens_total 50",
		"ingot_queue_wait_seconds_count 11",
		"ingot_ttft_seconds_count 10",
		"ingot_engine_generated_tokens_total 50",
		"ingot_engine_running_sequences 0",
		"ingot_engine_cache_pages_used 0",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Contains(t, text, "ingot_engine_step_seconds_total")
}

// TestMetricsOfDrafts compares the draft counters with the rows' statistics. Its prompts repeat
// words, so that n-gram look-up gives drafts.
func TestMetricsOfDrafts(t *testing.T) {
	t.Parallel()
	backend, err := cpu.New(1)
	require.NoError(t, err)
	eng, err := engine.Open(filepath.Join("..", "engine", "model", "testdata", "micro-llama.gguf"), backend,
		engine.Options{Draft: engine.DraftNGram, DraftTokens: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, eng.Close()) })
	b := setUp(t, memqueue.New(), nil, Config{})
	b.worker.generate = eng.Generate
	words := strings.Repeat("311,312,313,", 8)
	b.enqueue(t, `{"custom_id":"a","prompt":[`+words+`311],"max_tokens":40,"ignore_eos":true}`+"\n", enqueue.Options{})
	stop := b.start(t)
	row := b.results(t)["a"]
	stop()
	require.Positive(t, row.Stats.DraftTokens)
	require.Positive(t, row.Stats.AcceptedTokens)

	server := httptest.NewServer(b.handler())
	defer server.Close()
	_, text := get(t, server.URL+"/metrics")
	require.Contains(t, text, fmt.Sprintf("ingot_draft_tokens_total %d\n", row.Stats.DraftTokens))
	require.Contains(t, text, fmt.Sprintf("ingot_accepted_tokens_total %d\n", row.Stats.AcceptedTokens))
}

// Health does not depend on PING, since a Redis server can answer PING and refuse everything else.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	folder, err := r.Client.ConfigGet(t.Context(), "dir").Result()
	require.NoError(t, err)
	set := func(name, value string) { require.NoError(t, r.Client.ConfigSet(t.Context(), name, value).Err()) }
	b := setUp(t, redisqueue.New(r.Client), nil, Config{})
	b.worker.readyTimeout = 300 * time.Millisecond
	server := httptest.NewServer(b.handler())
	defer server.Close()
	ready := func(code int, text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, body := get(t, server.URL+"/readyz")
			return got == code && strings.Contains(body, text)
		}, time.Minute, 10*time.Millisecond)
	}
	const starved = "no row could be taken from the queue"
	ready(http.StatusServiceUnavailable, starved) // the worker does not run yet
	stop := b.start(t)
	ready(http.StatusOK, "ok\n")

	for name, fault := range map[string]struct{ begin, end func() }{
		"memory": {
			func() { set("maxmemory", "1") },
			func() { set("maxmemory", "0") },
		},
		"disk": {
			func() {
				require.NoError(t, os.RemoveAll(folder["dir"]))
				set("save", "3600 1")
				r.Client.BgSave(t.Context()) // fails; the server then refuses writes
			},
			func() { set("stop-writes-on-bgsave-error", "no") },
		},
		"pause": {
			func() {
				_, err := r.Client.Do(t.Context(), "client", "pause", "600000", "write").Result()
				require.NoError(t, err)
			},
			func() { require.NoError(t, r.Client.ClientUnpause(t.Context()).Err()) },
		},
	} {
		fault.begin()
		ready(http.StatusServiceUnavailable, starved)
		if name != "disk" {
			require.NoError(t, r.Client.Ping(t.Context()).Err(), name)
		}
		code, _ := get(t, server.URL+"/healthz")
		require.Equal(t, http.StatusOK, code, "the worker stays healthy until aliveTimeout is over")
		fault.end()
		ready(http.StatusOK, "ok\n")
	}

	stop()
	ready(http.StatusServiceUnavailable, "the worker is stopping")
	b.worker.aliveTimeout = 0
	code, text := get(t, server.URL+"/healthz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, starved)
	require.NotContains(t, text, "ok\n")
}

func TestServe(t *testing.T) {
	t.Parallel()
	b := setUp(t, memqueue.New(), nil, Config{})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	ctx := t.Context()
	go func() { ended <- serve(ctx, l, b.handler()) }()
	code, _ := get(t, "http://"+l.Addr().String()+"/healthz")
	require.Equal(t, http.StatusOK, code)
	require.ErrorContains(t, (&Group{workers: []*Worker{b.worker}}).Serve(t.Context(), l.Addr().String()), "serve metrics")
	t.Cleanup(func() { require.NoError(t, <-ended) })
}

// An engine is stuck when it has had work for two minutes without finishing a step.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var p watchdog
	for _, c := range []struct {
		after time.Duration
		s     engine.Snapshot
		stuck bool
	}{
		{0, engine.Snapshot{}, false},
		{time.Hour, engine.Snapshot{Running: 1, Steps: 5}, false},
		{time.Hour + time.Minute, engine.Snapshot{Running: 1, Steps: 5}, false},
		{time.Hour + 3*time.Minute, engine.Snapshot{Waiting: 1, Steps: 5}, true},
		{time.Hour + 4*time.Minute, engine.Snapshot{Running: 1, Steps: 6}, false},
		{2 * time.Hour, engine.Snapshot{Steps: 6}, false},
		{3 * time.Hour, engine.Snapshot{Running: 1, Steps: 6}, false},
	} {
		err := p.check(c.s, start.Add(c.after))
		require.Equal(t, c.stuck, err != nil, "after %v: %v", c.after, err)
	}
}
