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
	d.step = appendDrafting(d.step[:0], b.seqs, func(s *sequence) bool { return !s.decodes() })
	err := d.speculator.Prefill(d.step)
	return time.Since(start), err
}

func appendDrafting(list []*draft.Sequence, seqs []*sequence, which func(*sequence) bool) []*draft.Sequence {
	for _, s := range seqs {
		if which(s) {
			list = append(list, s.drafting())
		}
	}
	return list
}

// observe passes the results of steps to the speculator. depends reports whether the duration of
// the steps depends on drafts.
func (d *drafting) observe(b *batch, took draft.Step) (counts draft.Counts, depends bool) {
	if d.speculator == nil {
		return draft.Counts{}, false
	}
	d.step = appendDrafting(d.step[:0], b.seqs, func(*sequence) bool { return true })
	return d.speculator.Observe(d.step, took)
}

// draft lets the speculator draft for the step after b, which will have the given number of rows of
// prompts.
func (d *drafting) draft(b *batch, running []*sequence, prompts int) error {
	if d.speculator == nil {
		return nil
	}
	d.step = appendDrafting(d.step[:0], b.seqs, func(s *sequence) bool { return !s.ended() })
	d.decode = appendDrafting(d.decode[:0], running, func(s *sequence) bool { return !s.ended() && s.decodes() })
	return d.speculator.Draft(d.step, draft.Next{Running: len(running), Decode: d.decode, Others: prompts})
}
