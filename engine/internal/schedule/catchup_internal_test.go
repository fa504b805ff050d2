package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"

	"github.com/stretchr/testify/require"
)

// tinyGLM is a trained model. Most drafts of its MTP layer are accepted.
const tinyGLM = "../../../models/tiny-glm.q8_0.gguf"

// timed is a model whose steps take as long as estimated, where the clock is that of synctest.
type timed struct {
	model.Model
	steps *cost.Steps
}

func (m timed) Decode(b *compute.Batch, n int) error {
	size := cost.Size{Rows: len(b.Tokens), Outputs: len(b.Outputs)}
	<-time.After(time.Duration(m.steps.Seconds(size) * float64(time.Second)))
	return m.Model.Decode(b, n)
}

// timedDrafter is a model whose MTP layer takes a thousandth of the time of a step.
type timedDrafter struct{ model.Drafter }

func (m timedDrafter) Draft(b *compute.Batch, source model.States, states []int32) error {
	<-time.After(time.Millisecond)
	return m.Drafter.Draft(b, source, states)
}

// In each run of a request, one step of the prompt or of the answer seems to be slow. All runs
// still draft about the same number of tokens.
func TestAMomentDoesNotDecideAboutDrafts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cheap := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 1.1}), 0, 0, 0)
		dear := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 64}), 0, 0, 0)
		steps := *cheap
		m := newManual(t, setup{
			path: tinyGLM, options: Options{Steps: &steps, PrefillChunk: 16, NoSharing: true},
			speculate: func(_ compute.Backend, o *draft.Options) {
				o.MTP, o.Steps = timedDrafter{o.Model.(model.Drafter)}, &steps
			},
		})
		m.loop.model = timed{m.loop.model, &steps}
		prompt := m.tokenizer.Encode("Once upon a time, there was a little girl who lived in a house near the woods. She had a cat and a dog. One day the cat", tokenizer.EncodeOptions{})
		var drafted []int
		for run := range 12 {
			c := m.begin(generation.Request{Tokens: prompt, MaxTokens: 60, IgnoreEOS: true})
			for step := 0; c.open > 0; step++ {
				steps = *cheap
				if step == run {
					steps = *dear
				}
				m.step()
			}
			drafted = append(drafted, c.stats().DraftTokens)
		}
		for _, n := range drafted {
			require.InDelta(t, 72, n, 12, "%v", drafted)
		}
	})
}

// Once drafting pays, a sequence drafts as well as any other, even if drafting did not pay at
// first: during its prompt, during the beginning of its answer, or while another sequence computed
// the beginning of its prompt.
func TestBusyTimesDoNotDecideAboutDrafts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits    model.Limits
		speculate func(t *testing.T, be compute.Backend, o *draft.Options)
	}{
		"by the MTP layer": {model.Limits{}, func(_ *testing.T, _ compute.Backend, o *draft.Options) { o.MTP = timedDrafter{o.Model.(model.Drafter)} }},
		// If a small model cannot catch up with a text, it processes only the end of the text.
		"by a small model": {model.Limits{Rows: 64, PageSize: 4}, func(t *testing.T, be compute.Backend, o *draft.Options) {
			t.Helper()
			f, err := gguf.Open(tinyGLM)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			small, err := model.Load(be, f, o.Limits)
			require.NoError(t, err)
			o.Small = timed{small, constant(0.001)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cheap := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 1.1}), 0, 0, 0)
				dear := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 64}), 0, 0, 0)
				steps := *cheap
				m := newManual(t, setup{
					path: tinyGLM, limits: c.limits, options: Options{Steps: &steps, PrefillChunk: 8},
					speculate: func(be compute.Backend, o *draft.Options) {
						c.speculate(t, be, o)
						o.Steps = &steps
					},
				})
				m.loop.model = timed{m.loop.model, &steps}
				const text = "Once upon a time, there was a little girl who lived in a house near the woods. She had a cat and a dog. One day the "
				var accepted []int
				for i, busy := range []int{0, 1, 3, 8, 20, 30, 40, 0} { // steps of the request for which drafting does not pay
					steps = *dear
					for other := m.begin(batchRequest(int32(i), 2, 100)); other.open > 0; {
						m.step()
					}
					prompt := m.tokenizer.Encode(text+[]string{"cat", "dog", "girl"}[i%3], tokenizer.EncodeOptions{})
					c := m.begin(generation.Request{Tokens: prompt, MaxTokens: 120, IgnoreEOS: true})
					before := 0
					for step := 0; c.open > 0; step++ {
						if step == busy {
							steps = *cheap
						}
						if len(c.seqs[0].answer()) < 60 {
							before = c.seqs[0].draft.Total.Accepted
						}
						m.step()
					}
					accepted = append(accepted, c.seqs[0].draft.Total.Accepted-before)
				}
				for _, n := range accepted { // now and then, 16 steps have no drafts
					require.InDelta(t, 48, n, 12, "accepted drafts of 60 tokens in each request: %v", accepted)
				}
			})
		})
	}
}
