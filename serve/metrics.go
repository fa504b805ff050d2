package serve

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ingot-run/ingot/queue"
	"github.com/ingot-run/ingot/worker"
)

type metrics struct {
	registry *prometheus.Registry

	requests   *prometheus.CounterVec // by pattern of the path, and status
	duration   *prometheus.HistogramVec
	running    prometheus.Gauge
	prompt     *prometheus.CounterVec // this metric and those below are by model
	cached     *prometheus.CounterVec
	completion *prometheus.CounterVec
	ttft       *prometheus.HistogramVec
}

func newMetrics(a Answerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.005, 2, 18),
		}, []string{label})
	}
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		requests:   counter("ingot_http_requests_total", "Requests by path and status.", "path", "status"),
		duration:   seconds("ingot_http_request_seconds", "Time of a request until its response is written.", "path"),
		running:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_http_requests_running", Help: "Requests that are being answered."}),
		prompt:     counter("ingot_http_prompt_tokens_total", "Prompt tokens of answered requests.", "model"),
		cached:     counter("ingot_http_cached_tokens_total", "Prompt tokens of answered requests that were in the prefix cache.", "model"),
		completion: counter("ingot_http_completion_tokens_total", "Generated tokens of answered requests.", "model"),
		ttft:       seconds("ingot_http_ttft_seconds", "Time of an answered request to its first token.", "model"),
	}
	m.registry.MustRegister(m.requests, m.duration, m.running, m.prompt, m.cached, m.completion, m.ttft,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	models, err := a.Models(context.Background())
	if err != nil {
		return m // the fleet cannot be reached now; it has no engines in this process anyway
	}
	for _, model := range models {
		if eng := a.Engine(model.Alias); eng != nil {
			worker.RegisterEngine(prometheus.WrapRegistererWith(prometheus.Labels{"model": model.Alias}, m.registry), eng.Snapshot)
		}
	}
	return m
}

func (m *metrics) count(model string, s queue.Stats) {
	m.prompt.WithLabelValues(model).Add(float64(s.PromptTokens))
	m.cached.WithLabelValues(model).Add(float64(s.CachedTokens))
	m.completion.WithLabelValues(model).Add(float64(s.CompletionTokens))
	m.ttft.WithLabelValues(model).Observe((s.QueueWaitMS + s.TTFTMS) / 1000)
}

func (m *metrics) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.running.Inc()
		defer m.running.Dec()
		start := time.Now()
		defer func() {
			path := r.Pattern // the pattern, since there are too many different paths
			status := 0
			if out, ok := w.(*recorder); ok {
				status = out.status
			}
			m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
			m.duration.WithLabelValues(path).Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(w, r)
	})
}

func (m *metrics) handler() handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
