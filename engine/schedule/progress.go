package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/generation"
)

// resume gives the sequences the tokens that an earlier attempt generated. They are like preempted sequences then: the tokens are
// computed again as a prompt is. It reports false, with sequences that must not be used, if the tokens are no answer to the request:
// they go on after its end.
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

// progress is what the sequences have generated.
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
