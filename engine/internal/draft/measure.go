package draft

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// measure measures the duration of drafting passes for several numbers of sequences. It must run before the first request, because it
// writes to pages of the cache.
func (sp *Speculator) measure(m model.Model) error {
	if sp.chain == nil {
		return nil
	}
	vocab := m.Config().Vocab
	sizes := sp.planner.Verify.Sizes()
	passes := make([]*pass, len(sizes))
	for i, n := range sizes {
		p := &pass{Batch: *cost.FirstTokens(n, vocab)}
		for state := range int32(n) {
			p.states = append(p.states, state)
		}
		passes[i] = p
	}
	// An MTP layer reads the hidden states of the step before it, so this step must have as many rows as the largest pass.
	if _, err := m.Forward(&passes[len(passes)-1].Batch); err != nil {
		return fmt.Errorf("measure the cost of drafting: %w", err)
	}
	seconds, err := cost.Fastest(len(passes), func(i int) error { return sp.chain.forward(passes[i], true) })
	if err != nil {
		return fmt.Errorf("measure the cost of drafting: %w", err)
	}
	sp.planner.Pass = cost.NewCurve(sizes, seconds)
	return nil
}
