package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-run/ingot/engine"
)

// EngineCollector exports the engine's statistics to Prometheus. It reads them at each scrape.
type EngineCollector struct {
	snapshot func() engine.Snapshot
	figures  []engineFigure
}

type engineFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(engine.Snapshot) float64
}

// NewEngineCollector returns a collector of an engine's snapshots.
func NewEngineCollector(snapshot func() engine.Snapshot) *EngineCollector {
	c := &EngineCollector{snapshot: snapshot}
	add := func(name, help string, kind prometheus.ValueType, value func(engine.Snapshot) float64) {
		c.figures = append(c.figures, engineFigure{prometheus.NewDesc("ingot_engine_"+name, help, nil, nil), kind, value})
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	add("running_sequences", "Sequences that the engine is generating.", gauge,
		func(s engine.Snapshot) float64 { return float64(s.Running) })
	add("waiting_sequences", "Sequences waiting for admission.", gauge,
		func(s engine.Snapshot) float64 { return float64(s.Waiting) })
	add("steps_total", "Forward passes.", counter,
		func(s engine.Snapshot) float64 { return float64(s.Steps) })
	add("step_seconds_total", "Time in forward passes; divided by steps_total, the mean time of a step.", counter,
		func(s engine.Snapshot) float64 { return s.StepTime.Seconds() })
	add("last_step_seconds", "Time of the last forward pass.", gauge,
		func(s engine.Snapshot) float64 { return s.LastStep.Seconds() })
	add("prompt_tokens_total", "Prompt tokens computed, including those of jobs that were not recorded.", counter,
		func(s engine.Snapshot) float64 { return float64(s.PromptTokens) })
	add("generated_tokens_total", "Tokens generated, including those of jobs that were not recorded.", counter,
		func(s engine.Snapshot) float64 { return float64(s.GeneratedTokens) })
	add("cache_pages_used", "Pages of the KV cache in use.", gauge,
		func(s engine.Snapshot) float64 { return float64(s.PagesUsed) })
	add("cache_pages", "Pages of the KV cache.", gauge,
		func(s engine.Snapshot) float64 { return float64(s.PagesTotal) })
	return c
}

// Describe implements prometheus.Collector.
func (c *EngineCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *EngineCollector) Collect(out chan<- prometheus.Metric) {
	s := c.snapshot()
	for _, f := range c.figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s))
	}
}
