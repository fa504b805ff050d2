package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/draft"
)

// drafting is the lists that the speculator is given, kept so that a step allocates none.
type drafting struct {
	prompts, step, decode []*draft.Sequence
}

// prefillDrafts lets the speculator process the prompts of a step that has been computed, and returns the time that took.
func (l *loop) prefillDrafts() (time.Duration, error) {
	if l.Speculator == nil {
		return 0, nil
	}
	start, d := time.Now(), &l.drafting
	d.prompts = d.prompts[:0]
	for _, s := range l.batch.seqs {
		if !s.decodes() {
			d.prompts = append(d.prompts, &s.Sequence)
		}
	}
	err := l.Speculator.Prefill(d.prompts, len(l.running))
	return time.Since(start), err
}

// draft gives the speculator the results of steps that were computed together, and lets it draft for the next.
func (l *loop) draft(steps int, took time.Duration) error {
	if l.Speculator == nil {
		return nil
	}
	d, b := &l.drafting, &l.batch
	d.step, d.decode = d.step[:0], d.decode[:0]
	for _, s := range b.seqs {
		d.step = append(d.step, &s.Sequence)
	}
	counts := l.Speculator.Observe(d.step, steps, len(b.Tokens), took)
	l.meter.update(func(s *Snapshot) {
		s.DraftTokens += uint64(counts.Drafted)
		s.AcceptedTokens += uint64(counts.Accepted)
	})

	d.step = d.step[:0]
	for _, s := range b.seqs {
		if !s.ended() {
			d.step = append(d.step, &s.Sequence)
		}
	}
	others := 0
	for _, s := range l.running {
		switch {
		case s.ended():
		case s.decodes():
			d.decode = append(d.decode, &s.Sequence)
		default:
			others += s.target() - s.Computed
		}
	}
	return l.Speculator.Draft(d.step, draft.Next{Running: len(l.running), Decode: d.decode, Others: others})
}
