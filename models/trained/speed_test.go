package trained_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/models/trained"
)

// BenchmarkSpeed measures tokens per second, as llama-batched-bench does: prompts of 128 tokens
// that begin differently, then 32 tokens each, without drafts. "pp" is the speed of all prompts
// together, "tg" that of generated tokens after all prompts.
func BenchmarkSpeed(b *testing.B) {
	for _, m := range trained.Models() {
		for _, n := range []int{1, 16, 32} {
			b.Run(fmt.Sprintf("%s/%d", m.Name, n), func(b *testing.B) { benchmarkSpeed(b, m, n) })
		}
	}
}

func benchmarkSpeed(b *testing.B, m trained.Model, n int) {
	const prompt, answer = 128, 32
	path, err := m.Find()
	if err != nil {
		b.Skipf("%s is not measured: %v", m.Name, err)
	}
	be, err := cpu.New(0)
	require.NoError(b, err)
	opts := engine.Options{Context: 256, MaxSequences: n, StepTokens: 512, KV: gguf.TypeF16, Draft: engine.DraftOff, NoSharing: true}
	eng, err := engine.Open(path, be, opts)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, eng.Close()) })
	chunks, err := trained.ReadChunks("testdata/"+m.Name+".jsonl.gz", 0)
	require.NoError(b, err)
	var ids []int32
	for _, c := range chunks {
		ids = append(ids, c.IDs...)
	}
	var prompts, generated time.Duration
	for b.Loop() {
		start := time.Now()
		times := make([][]time.Time, n)
		group, ctx := errgroup.WithContext(b.Context())
		for i := range n {
			group.Go(func() error {
				done, err := eng.Generate(ctx, generation.Request{
					Tokens: ids[i*prompt : (i+1)*prompt], MaxTokens: answer, IgnoreEOS: true, Timed: true,
				})
				if err == nil {
					times[i] = done.Choices[0].Times
				}
				return err
			})
		}
		require.NoError(b, group.Wait())
		first, last := times[0][0], times[0][0]
		for _, t := range times {
			if t[0].After(first) {
				first = t[0]
			}
			if t[answer-1].After(last) {
				last = t[answer-1]
			}
		}
		// Until the last prompt is computed, the other sequences generate too.
		early := 0
		for _, t := range times {
			for _, at := range t[1:] {
				if !at.After(first) {
					early++
				}
			}
		}
		prompts += first.Sub(start)
		generated += last.Sub(first) * time.Duration(n*(answer-1)) / time.Duration(max(n*(answer-1)-early, 1))
	}
	b.ReportMetric(float64(b.N*n*prompt)/prompts.Seconds(), "pp/s")
	b.ReportMetric(float64(b.N*n*(answer-1))/generated.Seconds(), "tg/s")
}
