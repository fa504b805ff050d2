package worker

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine"
)

// Each figure of the engine is a metric, with the value at the time of the scrape.
func TestFiguresOfTheEngine(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	var now engine.Snapshot
	RegisterEngine(registry, func() engine.Snapshot { return now })
	now = engine.Snapshot{
		Running: 2, Waiting: 3, Steps: 5, StepTime: 7 * time.Second, LastStep: 11 * time.Millisecond,
		PromptTokens: 13, GeneratedTokens: 17, PagesUsed: 19, PagesTotal: 23,
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	gauges, counters := map[string]float64{}, map[string]float64{}
	for _, f := range families {
		require.NotEmpty(t, f.GetHelp())
		require.Len(t, f.GetMetric(), 1)
		m := f.GetMetric()[0]
		if m.GetCounter() != nil {
			counters[f.GetName()] = m.GetCounter().GetValue()
		} else {
			gauges[f.GetName()] = m.GetGauge().GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"ingot_engine_running_sequences": 2, "ingot_engine_waiting_sequences": 3, "ingot_engine_last_step_seconds": 0.011,
		"ingot_engine_cache_pages_used": 19, "ingot_engine_cache_pages": 23,
	}, gauges)
	require.Equal(t, map[string]float64{
		"ingot_engine_steps_total": 5, "ingot_engine_step_seconds_total": 7, "ingot_engine_prompt_tokens_total": 13, "ingot_engine_generated_tokens_total": 17,
	}, counters)
}
