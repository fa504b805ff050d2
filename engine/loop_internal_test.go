package engine

import (
	"testing"

	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/gguf"
)

const microGLM = "model/testdata/micro-glm.gguf"

// several is the CPU, where steps can be under way that have run already.
type several struct{ compute.Backend }

func (several) MaxInFlight() int { return 8 }

// decoding returns a loop whose four sequences have generated for a while, and what runs its next step.
func decoding(t testing.TB, ahead bool, opts Options, params generation.Sampling) (l *loop, step func()) {
	t.Helper()
	const warm = 40
	reference, err := cpu.New(2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reference.Close()) })
	var be compute.Backend = reference
	if ahead {
		be = several{reference}
	}
	opts.KV = gguf.TypeF16
	e, err := open(microGLM, be, opts)
	require.NoError(t, err)
	c, err := e.newCall(t.Context(), &generation.Request{Tokens: []int32{1, 2, 3, 1, 2, 3}, N: 4, IgnoreEOS: true, Sampling: params})
	require.NoError(t, err)
	require.NoError(t, e.inbox.put(c))
	l = e.loop
	l.waiting, _ = l.inbox.takeTo(l.waiting)
	step = func() {
		l.sweep()
		l.admit()
		l.publish()
		l.step()
	}
	for range warm {
		step()
	}
	require.NoError(t, c.err)
	require.Len(t, l.running, 4)
	return l, step
}

var decodings = []struct {
	name   string
	ahead  bool
	opts   Options
	params generation.Sampling
}{
	{"greedy", false, Options{Draft: DraftOff}, generation.Sampling{}},
	{"sampled", false, Options{Draft: DraftOff}, generation.Sampling{Temperature: 1, TopP: 0.9, TopK: 50, FrequencyPenalty: 0.1}},
	{"greedy, steps ahead", true, Options{Draft: DraftOff}, generation.Sampling{}},
	{"sampled from the best", true, Options{Draft: DraftOff}, generation.Sampling{Temperature: 1, TopP: 0.9, TopK: 50}},
	{"drafting by MTP", false, Options{Draft: DraftMTP, DraftTokens: 3}, generation.Sampling{}},
	{"drafting by look-up", false, Options{Draft: DraftNGram, DraftTokens: 3}, generation.Sampling{LogitBias: map[int32]float64{7: 100}}},
	{"drafting by a model", false, Options{Draft: DraftModel, DraftModel: microGLM, DraftTokens: 3}, generation.Sampling{}},
	{"drafting as it pays", false, Options{}, generation.Sampling{}},
}

// A step that only decodes allocates nothing, from taking calls in to drafting for the next: what grows with a text, such
// as its list of pages, was given room or grows by doubling.
func TestASteadyStepAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates by itself")
	}
	for _, d := range decodings {
		t.Run(d.name, func(t *testing.T) {
			l, step := decoding(t, d.ahead, d.opts, d.params)
			before := l.meter.read()
			require.Zero(t, testing.AllocsPerRun(60, step))
			after := l.meter.read()
			require.GreaterOrEqual(t, after.GeneratedTokens-before.GeneratedTokens, uint64(4*61), "all four sequences went on")
			if d.opts.DraftTokens > 0 {
				require.Greater(t, after.DraftTokens, before.DraftTokens)
			}
		})
	}
}

func BenchmarkSteadyStep(b *testing.B) {
	for _, d := range decodings {
		b.Run(d.name, func(b *testing.B) {
			l, step := decoding(b, d.ahead, d.opts, d.params)
			b.ReportAllocs()
			for b.Loop() {
				if len(l.running) == 0 {
					b.StopTimer()
					l, step = decoding(b, d.ahead, d.opts, d.params)
					b.StartTimer()
				}
				step()
			}
		})
	}
}
