package schedule

import (
	"testing"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cost"
	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/generation"

	"github.com/stretchr/testify/require"
)

// tinyGLM is a trained model, whose MTP layer is mostly right.
const tinyGLM = "../../models/tiny-glm.q8_0.gguf"

// Runs of the same request draft about as much, although steps seem to be slow at a moment that is another one in each run: in the
// prompt or in the answer.
func TestAMomentDoesNotDecideAboutDrafts(t *testing.T) {
	t.Parallel()
	cheap := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 1.1}), 0, 0, 0)
	dear := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 64}), 0, 0, 0)
	steps := *cheap
	m := newManual(t, setup{
		path: tinyGLM, options: Options{Steps: &steps, PrefillChunk: 16, NoSharing: true},
		speculate: func(_ compute.Backend, o *draft.Options) { o.MTP, o.Steps = o.Model.(model.Drafter), &steps },
	})
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
}
