package engine

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/draft"
)

const (
	// mostMeasured is the most rows of a measured step; larger steps are taken to cost in proportion.
	mostMeasured = 64
	// slowStep is the duration from which a step is measured once only, after the one that warms it up.
	slowStep = 50 * time.Millisecond
	// measurements is how often a quicker one is; the least counts.
	measurements = 5
)

// measure times steps of the model and passes of the drafter by their rows, before the first request. Rows are sequences
// of one token each, in pages that nothing uses yet.
func (sp *speculation) measure(forward func(*compute.Batch) ([][]float32, error), rows, pages int) error {
	var sizes []int
	var verify, passes []float64
	for n := 1; n <= min(rows, pages, mostMeasured); n *= 2 {
		p := firstTokens(n, sp.vocab)
		seconds, err := fastest(func() error { _, err := forward(&p.Batch); return err })
		if err != nil {
			return fmt.Errorf("time a step of %d rows: %w", n, err)
		}
		sizes, verify = append(sizes, n), append(verify, seconds)
		if sp.chain == nil {
			continue
		}
		seconds, err = fastest(func() error { return sp.chain.forward(p, true) })
		if err != nil {
			return fmt.Errorf("time a drafting pass of %d rows: %w", n, err)
		}
		passes = append(passes, seconds)
	}
	sp.planner.Verify = draft.NewCost(sizes, verify)
	if sp.chain != nil {
		sp.planner.Pass = draft.NewCost(sizes, passes)
	}
	return nil
}

// firstTokens is n sequences of one token, each in a page of its own. The tokens are spread over the vocabulary, so that
// they choose experts as different as those of a text.
func firstTokens(n, vocab int) *pass {
	p := &pass{Batch: compute.Batch{Top: 1}}
	for i := range int32(n) {
		p.Seqs = append(p.Seqs, compute.Seq{Pages: []int32{i}})
		p.row(int32((2*int(i)+1)*vocab/(2*n)), 0, i)
		p.Outputs = append(p.Outputs, i)
	}
	return p
}

// fastest is the least seconds that a function takes once it is warm.
func fastest(run func() error) (float64, error) {
	if err := run(); err != nil { // which may read weights from a disk
		return 0, err
	}
	var least time.Duration
	for i := range measurements {
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < least {
			least = took
		}
		if least > slowStep {
			break
		}
	}
	return least.Seconds(), nil
}
