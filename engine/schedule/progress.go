package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/generation"
)

// resume gives the sequences the tokens that an earlier attempt generated. The sequences are then like preempted ones: the tokens are
// computed again like a prompt. resume returns false if the tokens cannot be an answer to the request because they continue after its
// end; the sequences must then not be used.
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

// report reports the progress of running requests that are due and have generated tokens since they began.
func (l *loop) report(now time.Time) {
	for _, s := range l.running {
		c := s.call
		if c.report != nil && c.err == nil && !now.Before(c.nextReport) && len(s.answer()) > 0 {
			c.nextReport = now.Add(c.reportEvery)
			c.report()
		}
	}
}
