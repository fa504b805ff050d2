package schedule

import (
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

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

// All logits of a step are read at most once, and only for log-probabilities of more tokens than
// the step finds.
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
		"at a temperature":                 {requests: []generation.Request{{Sampling: generation.Sampling{Temperature: 1}}}},
		"with all options": {requests: []generation.Request{{MinTokens: 5, Sampling: generation.Sampling{
			Temperature: 1, TopP: 0.9, MinP: 0.01, FrequencyPenalty: 0.1, RepetitionPenalty: 1.1, LogitBias: map[int32]float64{3: 1},
		}}}},
		"drawn, drafted by the MTP layer": {requests: []generation.Request{{Sampling: generation.Sampling{Temperature: 1}}}, speculate: byMTP},
		"with many log-probabilities": {requests: []generation.Request{
			{Logprobs: true, TopLogprobs: model.MaxTop + 1}, {Logprobs: true, TopLogprobs: model.MaxTop + 1}, {},
		}, reads: 1},
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

// countedModel counts the reads of results. Its only step has two outputs.
type countedModel struct {
	model.Model
	reads int
}

func (m *countedModel) Drawn(int) [][]float32 {
	m.reads++
	return [][]float32{{7, 2, 2}, {8, 4, 4}}
}

// A GPU takes long for each read, so the tokens of all outputs of a step are read at once.
func TestTokensAreReadOncePerStep(t *testing.T) {
	t.Parallel()
	var m countedModel
	d := drawer{model: &m}
	for step := range 3 {
		d.begin(step, 1)
		for row, id := range []int32{7, 8} {
			got, err := d.tokenOf(output{row: row})
			require.NoError(t, err)
			require.Equal(t, id, got.ID)
		}
		require.Equal(t, step+1, m.reads)
	}
}

// Log-probabilities of more tokens than a step finds need all logits, as the model computed them.
func TestManyLogprobsOfEditedLogits(t *testing.T) {
	t.Parallel()
	s := started(t, setup{})
	req := generation.Request{Tokens: ascending(6), MaxTokens: 4, IgnoreEOS: true, Logprobs: true, TopLogprobs: model.MaxTop + 1}
	require.Len(t, s.generate(t, req).Choices[0].Logprobs[3].Top, model.MaxTop+1)
	req.Sampling.PresencePenalty = 1
	_, err := s.Generate(t.Context(), time.Now(), req.Tokens, &req, nil)
	require.ErrorIs(t, err, generation.ErrBadRequest)
}
