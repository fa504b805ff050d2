package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/internal/draft"
)

// drafting passes sequences to a speculator. It reuses its lists, so that a step allocates none.
type drafting struct {
	*draft.Speculator // nil to draft nothing

	prompts, step, decode []*draft.Sequence
}

// prefill lets the speculator process the prompts of a step that has been computed. It returns the time that the speculator took.
func (d *drafting) prefill(b *batch) (time.Duration, error) {
	if d.Speculator == nil {
		return 0, nil
	}
	start := time.Now()
	d.prompts = d.prompts[:0]
	for _, s := range b.seqs {
		if !s.decodes() {
			d.prompts = append(d.prompts, &s.Sequence)
		}
	}
	err := d.Prefill(d.prompts)
	return time.Since(start), err
}

// observe gives the speculator the results of steps that were computed together, of which b is the last.
func (d *drafting) observe(b *batch, steps int) draft.Counts {
	if d.Speculator == nil {
		return draft.Counts{}
	}
	d.step = d.step[:0]
	for _, s := range b.seqs {
		d.step = append(d.step, &s.Sequence)
	}
	return d.Observe(d.step, steps)
}

// draft lets the speculator draft for the step after b, which will have the given number of rows of prompts.
func (d *drafting) draft(b *batch, running []*sequence, prompts int) error {
	if d.Speculator == nil {
		return nil
	}
	d.step, d.decode = d.step[:0], d.decode[:0]
	for _, s := range b.seqs {
		if !s.ended() {
			d.step = append(d.step, &s.Sequence)
		}
	}
	for _, s := range running {
		if !s.ended() && s.decodes() {
			d.decode = append(d.decode, &s.Sequence)
		}
	}
	return d.Draft(d.step, draft.Next{Running: len(running), Decode: d.decode, Others: prompts})
}
