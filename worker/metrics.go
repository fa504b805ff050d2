package worker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/queue"
)

type metrics struct {
	jobs       *prometheus.CounterVec // by outcome
	prompt     prometheus.Counter
	cached     prometheus.Counter
	completion prometheus.Counter
	drafted    prometheus.Counter
	accepted   prometheus.Counter
	queueWait  prometheus.Histogram
	ttft       prometheus.Histogram
	duration   prometheus.Histogram
	batch      prometheus.Histogram
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func newMetrics(registry prometheus.Registerer, snapshot func() engine.Snapshot) *metrics {
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_jobs_total",
			Help: "Deliveries of jobs by outcome. Jobs that were retried, handed_back or lease_lost are delivered again.",
		}, []string{"outcome"}),
		prompt:     counter("ingot_prompt_tokens_total", "Prompt tokens of recorded jobs."),
		cached:     counter("ingot_cached_tokens_total", "Prompt tokens of recorded jobs that were in the prefix cache."),
		completion: counter("ingot_completion_tokens_total", "Generated tokens of recorded jobs."),
		drafted:    counter("ingot_draft_tokens_total", "Tokens drafted for recorded jobs."),
		accepted:   counter("ingot_accepted_tokens_total", "Drafted tokens that were accepted."),
		queueWait:  seconds("ingot_queue_wait_seconds", "Time of a recorded job from being queued to being taken.", 0.01, 18),
		ttft:       seconds("ingot_ttft_seconds", "Time of an answered job from being taken to its first token.", 0.005, 16),
		duration:   seconds("ingot_job_seconds", "Time of an answered job in the engine.", 0.01, 18),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ingot_job_batch_mean", Help: "Mean number of sequences in the steps of an answered job.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9),
		}),
	}
	for _, outcome := range []string{"done", "failed", "retried", "handed_back", "lease_lost"} {
		m.jobs.WithLabelValues(outcome)
	}
	registry.MustRegister(m.jobs, m.prompt, m.cached, m.completion, m.drafted, m.accepted,
		m.queueWait, m.ttft, m.duration, m.batch)
	RegisterEngine(registry, snapshot)
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// seconds returns a histogram of times with n buckets: low, 2*low, 4*low...
func seconds(name, help string, low float64, n int) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(low, 2, n),
	})
}

// delivered counts a delivery that has recorded nothing and is repeated. observe counts the others.
func (m *metrics) delivered(o queue.Outcome) {
	switch {
	case o.Kind == queue.KindRetry:
		m.jobs.WithLabelValues("retried").Inc()
	case o.Uncounted():
		m.jobs.WithLabelValues("handed_back").Inc()
	case errors.Is(o.Err, queue.ErrSuperseded):
		m.jobs.WithLabelValues("lease_lost").Inc()
	}
}

func (m *metrics) observe(r queue.Result) {
	s := r.Stats
	m.queueWait.Observe(s.QueueWaitMS / 1000)
	if r.Failed {
		m.jobs.WithLabelValues("failed").Inc()
		return
	}
	m.jobs.WithLabelValues("done").Inc()
	m.prompt.Add(float64(s.PromptTokens))
	m.cached.Add(float64(s.CachedTokens))
	m.completion.Add(float64(s.CompletionTokens))
	m.drafted.Add(float64(s.DraftTokens))
	m.accepted.Add(float64(s.AcceptedTokens))
	m.ttft.Observe(s.TTFTMS / 1000)
	m.duration.Observe(s.TotalMS / 1000)
	m.batch.Observe(s.BatchMean)
}

// RegisterEngine registers an engine's statistics, which are read at each scrape.
func RegisterEngine(registry prometheus.Registerer, snapshot func() engine.Snapshot) {
	gauge := func(name, help string, value func(engine.Snapshot) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ingot_engine_" + name, Help: help},
			func() float64 { return value(snapshot()) }))
	}
	counter := func(name, help string, value func(engine.Snapshot) float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ingot_engine_" + name, Help: help},
			func() float64 { return value(snapshot()) }))
	}
	gauge("running_sequences", "Sequences that the engine is generating.", func(s engine.Snapshot) float64 { return float64(s.Running) })
	gauge("waiting_sequences", "Sequences waiting for admission.", func(s engine.Snapshot) float64 { return float64(s.Waiting) })
	counter("steps_total", "Forward passes.", func(s engine.Snapshot) float64 { return float64(s.Steps) })
	counter("step_seconds_total", "Time in forward passes; divided by steps_total, the mean time of a step.",
		func(s engine.Snapshot) float64 { return s.StepTime.Seconds() })
	gauge("last_step_seconds", "Time of the last forward pass.", func(s engine.Snapshot) float64 { return s.LastStep.Seconds() })
	counter("prompt_tokens_total", "Prompt tokens computed, including those of jobs that were not recorded.",
		func(s engine.Snapshot) float64 { return float64(s.PromptTokens) })
	counter("generated_tokens_total", "Tokens generated, including those of jobs that were not recorded.",
		func(s engine.Snapshot) float64 { return float64(s.GeneratedTokens) })
	gauge("cache_pages_used", "Pages of the KV cache in use.", func(s engine.Snapshot) float64 { return float64(s.PagesUsed) })
	gauge("cache_pages", "Pages of the KV cache.", func(s engine.Snapshot) float64 { return float64(s.PagesTotal) })
}
