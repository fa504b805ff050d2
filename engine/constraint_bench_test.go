package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/generation"
)

// people is a schema whose answers are longer than those of a benchmark.
const people = `{"type": "array", "minItems": 100, "items": {
	"type": "object",
	"properties": {
		"name": {"type": "string", "minLength": 3},
		"age": {"type": "integer", "minimum": 0, "maximum": 120},
		"job": {"enum": ["teacher", "doctor", "farmer", "engineer"]},
		"about": {"type": "string"},
		"likes": {"type": "array", "items": {"type": "string"}, "maxItems": 3}
	},
	"required": ["name", "age", "job", "about", "likes"],
	"additionalProperties": false
}}`

// BenchmarkConstrained compares answers with a schema with free answers of the same length, at
// temperature 1. INGOT_BENCH_STREAMS is the number of streams, and INGOT_BENCH_ROWS the number of
// answers. The ratios are the throughput with the schema divided by that without.
func BenchmarkConstrained(b *testing.B) {
	streams := fromEnv(b, "INGOT_BENCH_STREAMS", 16)
	rows := fromEnv(b, "INGOT_BENCH_ROWS", 2*streams)
	const tokens = 128
	e, _ := openLoaded(b, engine.Options{Context: 1024, MaxSequences: streams, Draft: engine.DraftOff})
	_, err := e.SHA256(b.Context())
	require.NoError(b, err)
	run := func(c *generation.Constraint) (seconds, cpu float64, sum generation.Stats) {
		start, spent := time.Now(), processorTime(b)
		all := make([]generation.Completion, rows)
		group, ctx := errgroup.WithContext(b.Context())
		group.SetLimit(streams)
		for i := range all {
			group.Go(func() (err error) {
				all[i], err = e.Generate(ctx, generation.Request{
					Text: "A list of people in JSON, with name, age, job, about and likes:\n", MaxTokens: tokens,
					Constraint: c, IgnoreEOS: c == nil, Sampling: generation.Sampling{Temperature: 1, Seed: uint64(i)},
				})
				return err
			})
		}
		require.NoError(b, group.Wait())
		for _, c := range all {
			require.Equal(b, generation.FinishLength, c.Choices[0].FinishReason)
			sum.MaskedTokens += c.Stats.MaskedTokens
			sum.ForcedTokens += c.Stats.ForcedTokens
			sum.MaskTime += c.Stats.MaskTime
		}
		return time.Since(start).Seconds(), (processorTime(b) - spent).Seconds(), sum
	}
	schema := &generation.Constraint{Schema: people}
	run(schema)
	var free, freeCPU, formed, formedCPU float64
	var stats generation.Stats
	for b.Loop() {
		seconds, cpu, _ := run(nil)
		free, freeCPU = free+seconds, freeCPU+cpu
		seconds, cpu, stats = run(schema)
		formed, formedCPU = formed+seconds, formedCPU+cpu
	}
	n := float64(b.N * rows * tokens)
	b.ReportMetric(n/free, "tokens/s-free")
	b.ReportMetric(n/formed, "tokens/s-schema")
	b.ReportMetric(free/formed, "ratio")
	b.ReportMetric(freeCPU/formedCPU, "cpu-ratio")
	b.ReportMetric(float64(stats.ForcedTokens)/float64(rows*tokens), "forced/token")
	b.ReportMetric(float64(stats.MaskTime.Microseconds())/float64(stats.MaskedTokens), "us/mask")
	b.ReportMetric(0, "ns/op")
}
