package draft

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/model"
)

const (
	// maxMeasured is the maximum number of rows of a measured step. Larger steps are assumed to cost in proportion.
	maxMeasured = 64
	// slowStep is the duration from which a step is timed only once, after the run that warms it up.
	slowStep = 50 * time.Millisecond
	// measurements is how often a quicker step is timed; the minimum counts.
	measurements = 5
)

// measure times steps of the model and passes of the drafter by their rows, before the first request. The rows are
// sequences of one token, in pages that nothing uses yet.
func (sp *Speculator) measure(m model.Model) error {
	var sizes []int
	var verify, passes []float64
	for n := 1; n <= min(sp.limits.Rows, sp.limits.Pages, maxMeasured); n *= 2 {
		p := firstTokens(n, m.Config().Vocab)
		seconds, err := fastest(func() error { _, err := m.Forward(&p.Batch); return err })
		if err != nil {
			return fmt.Errorf("measure the cost of steps: %w", err)
		}
		sizes, verify = append(sizes, n), append(verify, seconds)
		if sp.chain == nil {
			continue
		}
		seconds, err = fastest(func() error { return sp.chain.forward(p, true) })
		if err != nil {
			return fmt.Errorf("measure the cost of drafting: %w", err)
		}
		passes = append(passes, seconds)
	}
	sp.planner.Verify = newCost(sizes, verify)
	if sp.chain != nil {
		sp.planner.Pass = newCost(sizes, passes)
	}
	return nil
}

// firstTokens is n sequences of one token, each in its own page. The tokens are spread over the vocabulary, so that they
// select experts as different as those of a text.
func firstTokens(n, vocab int) *pass {
	p := &pass{Batch: compute.Batch{Top: 1}}
	for i := range int32(n) {
		p.begin([]int32{i})
		p.row(int32((2*int(i)+1)*vocab/(2*n)), 0, i)
		p.Outputs = append(p.Outputs, i)
	}
	return p
}

// fastest is the minimum number of seconds that a function takes once it is warm.
func fastest(run func() error) (float64, error) {
	if err := run(); err != nil { // which may read weights from a disk
		return 0, err
	}
	var minimum time.Duration
	for i := range measurements {
		start := time.Now()
		if err := run(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < minimum {
			minimum = took
		}
		if minimum > slowStep {
			break
		}
	}
	return minimum.Seconds(), nil
}
