package schedule

import (
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// several is the CPU backend with several steps in flight. Each step still runs when it is
// submitted.
type several struct{ compute.Backend }

func (several) MaxInFlight() int { return 8 }

// decoding is a test case whose sequences all generate.
type decoding struct {
	name      string
	inFlight  bool
	fixed     int // tokens to draft; see draft.Options
	speculate func(compute.Backend, *draft.Options)
	params    generation.Sampling
}

// start returns a scheduler whose four sequences have generated for a while.
func (d *decoding) start(t testing.TB) manual {
	t.Helper()
	const warm = 40
	reference, err := cpu.New(2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reference.Close()) })
	var be compute.Backend = reference
	if d.inFlight {
		be = several{reference}
	}
	// Runs of slow steps are short, so that the texts of many turns are.
	s := setup{path: microGLM, backend: be, limits: model.Limits{KV: gguf.TypeF16}, options: Options{Steps: constant(1)}}
	if d.speculate != nil {
		s.speculate = func(be compute.Backend, o *draft.Options) {
			o.Fixed = d.fixed
			d.speculate(be, o)
		}
	}
	m := newManual(t, s)
	c := m.begin(generation.Request{Tokens: []int32{1, 2, 3, 1, 2, 3}, N: 4, IgnoreEOS: true, Sampling: d.params})
	for range warm {
		m.step()
	}
	require.NoError(t, c.err)
	require.Len(t, m.loop.planner.running, 4)
	return m
}

func byMTP(_ compute.Backend, o *draft.Options) { o.MTP = o.Model.(model.Drafter) }

func byNGram(_ compute.Backend, o *draft.Options) { o.NGram = true }

func decodings(t testing.TB) []decoding {
	small, err := gguf.Open(microGLM)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, small.Close()) })
	return []decoding{
		{"greedy", false, 0, nil, generation.Sampling{}},
		{"sampled", false, 0, nil, generation.Sampling{Temperature: 1, TopP: 0.9, TopK: 50, FrequencyPenalty: 0.1}},
		{"greedy, steps in flight", true, 0, nil, generation.Sampling{}},
		{"sampled, steps in flight", true, 0, nil, generation.Sampling{Temperature: 1, TopP: 0.9, TopK: 50, PresencePenalty: 0.1}},
		{"drafting by MTP", false, 3, byMTP, generation.Sampling{}},
		{"drafting by n-grams", false, 3, byNGram, generation.Sampling{LogitBias: map[int32]float64{7: 100}}},
		{"drafting by a model", false, 3, func(be compute.Backend, o *draft.Options) {
			var err error
			o.Small, err = model.Load(be, small, o.Limits)
			require.NoError(t, err)
		}, generation.Sampling{}},
		{"drafting as it pays", false, 0, func(be compute.Backend, o *draft.Options) {
			byMTP(be, o)
			byNGram(be, o)
		}, generation.Sampling{}},
	}
}

// A turn that only decodes allocates nothing, from taking requests to drafting for the next step.
// Lists that grow with a text have room or grow by doubling.
func TestASteadyStepAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates by itself")
	}
	for _, d := range decodings(t) {
		t.Run(d.name, func(t *testing.T) {
			m := d.start(t)
			before := m.Snapshot()
			require.Zero(t, testing.AllocsPerRun(60, m.step))
			after := m.Snapshot()
			require.GreaterOrEqual(t, after.GeneratedTokens-before.GeneratedTokens, uint64(4*61), "all four sequences generate in every step")
			if d.fixed > 0 {
				require.Greater(t, after.DraftTokens, before.DraftTokens)
			}
		})
	}
}

func BenchmarkSteadyStep(b *testing.B) {
	for _, d := range decodings(b) {
		b.Run(d.name, func(b *testing.B) {
			m := d.start(b)
			b.ReportAllocs()
			for b.Loop() {
				if len(m.loop.planner.running) == 0 {
					b.StopTimer()
					m = d.start(b)
					b.StartTimer()
				}
				m.step()
			}
		})
	}
}
