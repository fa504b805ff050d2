package schedule

import (
	"testing"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// If the step returned only some of the logits that equal the k-th highest logit, the token is
// sampled from all logits. The reported log-probabilities are still computed from the returned
// ones.
func TestDrawAmongManyEquals(t *testing.T) {
	logits := []float32{0, 3, 3, 1, 3, 3, 3, -2}
	const top, sum = 3, 4.75
	best := []float32{1, 2, 4, 3, 3, 3, sum}
	other := map[int32]bool{}
	for seed := range uint64(40) {
		params := generation.Sampling{Temperature: 1, TopK: top - 1, Seed: seed}
		r := &request{prompt: []int32{1, 2}, scores: true}
		s := &sequence{request: r, sampler: sample.New(params, 0, r.prompt), tokens: r.prompt, scores: scores{top: 1}}
		require.Equal(t, top, s.needs(0, 64))
		d := drawer{top: top, logits: [][]float32{logits}, best: [][]float32{best}}
		id, err := d.draw(output{seq: s, top: top})
		require.NoError(t, err)
		want, err := s.sampler.Sample(logits, s.length(), &d.scratch)
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.Equal(t, []float64{3 - sum}, s.scores.of)
		require.Equal(t, []int32{1}, s.scores.topID)
		other[id] = true
	}
	require.Len(t, other, 5)
}

// Asking what a row needs changes no sampler: a greedy sequence below its minimum length needs all
// logits, and only the highest one after enough drafts.
func TestNeedsChangesNoSampler(t *testing.T) {
	r := &request{prompt: []int32{1, 2}, stopIDs: []int32{3}, minTokens: 2}
	s := &sequence{request: r, sampler: sample.New(generation.Sampling{}, 0, r.prompt), tokens: r.prompt}
	for range 2 {
		require.Zero(t, s.needs(1, 64))
		require.True(t, s.sampler.Greedy())
		require.Equal(t, 1, s.needs(2, 64))
	}
}

// reading is a backend that counts how often logits are read from it.
type reading struct {
	compute.Backend
	vocab, logits int
}

func (r *reading) Floats(t compute.Tensor) [][]float32 {
	if t.Cols == r.vocab {
		r.logits++
	}
	return r.Backend.Floats(t)
}

// All logits of a step are read at most once, and only if the highest logits do not suffice for one
// of its tokens.
func TestLogitsAreReadForWhoeverNeedsThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		requests  []generation.Request
		speculate func(compute.Backend, *draft.Options)
		reads     int // per step
	}{
		"greedy":                           {requests: []generation.Request{{}}},
		"greedy, drafted by the MTP layer": {requests: []generation.Request{{}}, speculate: byMTP},
		"from the top k":                   {requests: []generation.Request{{Sampling: generation.Sampling{Temperature: 1, TopK: 20}}}},
		"with log-probabilities":           {requests: []generation.Request{{Logprobs: true, TopLogprobs: 5}}},
		"from all, and greedy":             {requests: []generation.Request{{}, {Sampling: generation.Sampling{Temperature: 1}}, {Sampling: generation.Sampling{Temperature: 1}}}, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, err := cpu.New(1)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, one.Close()) })
			be := &reading{Backend: one}
			s := setup{path: microGLM, backend: be}
			if c.speculate != nil {
				s.speculate = func(be compute.Backend, o *draft.Options) { o.Fixed = 2; c.speculate(be, o) }
			}
			m := newManual(t, s)
			be.vocab = m.loop.model.Config().Vocab
			for _, req := range c.requests {
				req.Tokens, req.IgnoreEOS = []int32{1, 2, 3}, true
				m.begin(req)
			}
			const steps = 10
			for range steps {
				m.step()
			}
			require.Equal(t, steps*c.reads, be.logits)
		})
	}
}

// countedModel counts the reads of the highest logits. Its only step has two outputs.
type countedModel struct {
	model.Model
	reads int
}

func (m *countedModel) Best(int) [][]float32 {
	m.reads++
	return [][]float32{{7, 1, 2}, {8, 3, 4}}
}

// A GPU takes long for each read, so the highest logits of all outputs of a step are read at once.
func TestHighestLogitsAreReadOncePerStep(t *testing.T) {
	t.Parallel()
	var m countedModel
	d := drawer{model: &m}
	for step := range 3 {
		d.begin(step, 1)
		for row, id := range []int32{7, 8} {
			require.Equal(t, id, d.bestLogits(output{row: row}).ID(0))
		}
		require.Equal(t, step+1, m.reads)
	}
}
