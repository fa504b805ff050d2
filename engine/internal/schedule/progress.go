package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
)

// resume gives the sequences the tokens that an earlier attempt generated. As after a preemption, these tokens are computed again like a
// prompt. resume returns false if the tokens continue after the point where the request's answer ends. If it returns false, the sequences
// must not be used.
func (r *request) resume(p *generation.Progress) bool {
	for i, s := range r.seqs {
		ids := p.Choices[i]
		s.Tokens = append(make([]int32, 0, min(r.limit, len(r.prompt)+len(ids)+answerRoom)), r.prompt...)
		for _, id := range ids {
			if s.ended() {
				return false
			}
			s.accept(id, s.exclude(0))
		}
	}
	r.resumed = p.Tokens()
	return true
}

// progress returns the tokens that the sequences have generated.
func (r *request) progress() generation.Progress {
	p := generation.Progress{Prompt: generation.HashPrompt(r.prompt)}
	for _, s := range r.seqs {
		p.Choices = append(p.Choices, slices.Clone(s.answer()))
	}
	return p
}

// report calls the report function of each running request whose next report is due, if the request has generated tokens.
func (l *loop) report(now time.Time) {
	for _, s := range l.running {
		c := s.call
		if c.report != nil && c.err == nil && !now.Before(c.nextReport) && len(s.answer()) > 0 {
			c.nextReport = now.Add(c.reportEvery)
			c.report()
		}
	}
}
