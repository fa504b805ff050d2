package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/internal/draft"
)

// drafting passes sequences to a speculator. It reuses its lists, so that a step allocates none.
type drafting struct {
	speculator *draft.Speculator // nil to draft nothing

	step, decode []*draft.Sequence
}

// prefill lets the speculator process the prompts of a step that has been computed. It returns the
// time that the speculator took.
func (d *drafting) prefill(b *batch) (time.Duration, error) {
	if d.speculator == nil {
		return 0, nil
	}
	start := time.Now()
	d.step = d.step[:0]
	for _, s := range b.seqs {
		if !s.decodes() {
			d.step = append(d.step, s.drafting())
		}
	}
	err := d.speculator.Prefill(d.step)
	return time.Since(start), err
}

func (d *drafting) observe(b *batch, steps int) draft.Counts {
	if d.speculator == nil {
		return draft.Counts{}
	}
	d.step = d.step[:0]
	for _, s := range b.seqs {
		d.step = append(d.step, s.drafting())
	}
	return d.speculator.Observe(d.step, steps)
}

// draft lets the speculator draft for the step after b, which will have the given number of rows of
// prompts.
func (d *drafting) draft(b *batch, running []*sequence, prompts int) error {
	if d.speculator == nil {
		return nil
	}
	d.step, d.decode = d.step[:0], d.decode[:0]
	for _, s := range b.seqs {
		if !s.ended() {
			d.step = append(d.step, s.drafting())
		}
	}
	for _, s := range running {
		if !s.ended() && s.decodes() {
			d.decode = append(d.decode, s.drafting())
		}
	}
	return d.speculator.Draft(d.step, draft.Next{Running: len(running), Decode: d.decode, Others: prompts})
}
