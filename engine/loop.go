package engine

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/generation"

	"github.com/ingot-run/ingot/engine/cache"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/sample"
)

// loop is the goroutine that owns the model and the sequences: it takes calls in between steps, runs steps as long as
// there are sequences, and waits otherwise. A step that only decodes allocates nothing of its own.
type loop struct {
	model model.Model
	depth int // steps that can be under way at once
	top   int // most of the highest logits that can be asked for
	opts  *Options
	pool  *cache.Pool
	spec  *speculation // nil where nothing is drafted
	inbox *inbox
	meter *meter
	done  chan struct{} // closed when the loop has returned

	waiting  []*sequence // in order of arrival
	running  []*sequence // in order of admission
	ended    []*call     // calls whose callers have yet to be told
	batch    batch
	stops    stopRate
	scratch  sample.Scratch
	steps    uint64
	putBacks uint64
}

// run is the loop. It returns when the inbox is closed, after failing all calls that are not done.
func (l *loop) run() {
	defer close(l.done)
	for {
		var open bool
		if l.waiting, open = l.inbox.takeTo(l.waiting); !open {
			fail(l.running, generation.ErrClosed)
			fail(l.waiting, generation.ErrClosed)
		}
		l.sweep()
		l.admit()
		l.publish()
		switch {
		case !open:
			return
		case len(l.running) > 0:
			l.step()
		default:
			<-l.inbox.wake
		}
	}
}

// step runs a forward pass, or several where nobody has to look at their tokens in between, hands out the logits, and
// drafts for the next.
func (l *loop) step() {
	start := time.Now()
	l.plan()
	n := l.ahead()
	b := &l.batch
	b.fill(l.running, l.top)
	logits, err := l.compute(n)
	if err != nil {
		fail(b.seqs, err)
		return
	}
	var filling time.Duration
	if l.spec != nil {
		begin := time.Now()
		if err := l.spec.fill(b, len(l.running)); err != nil {
			fail(b.seqs, fmt.Errorf("follow a step of %d rows: %w", len(b.Tokens), err))
			return
		}
		filling = time.Since(begin)
	}
	computed := time.Since(start)
	steps, prompt, generated := 0, 0, 0
	for ; steps < n && (steps == 0 || b.follow()); steps++ {
		end := start.Add(computed * time.Duration(steps+1) / time.Duration(n)) // as near as can be known
		p, g := l.handOut(logits, steps, end)
		prompt, generated = prompt+p, generated+g
	}
	if l.spec != nil {
		if err := l.spec.draft(b, l.running, n, time.Since(start)-filling); err != nil {
			fail(b.seqs, fmt.Errorf("draft after a step of %d rows: %w", len(b.Tokens), err))
		}
	}
	took := time.Since(start)
	l.meter.update(func(s *Snapshot) {
		s.Steps += uint64(steps)
		s.PromptTokens += uint64(prompt)
		s.GeneratedTokens += uint64(generated)
		s.StepTime += took
		s.LastStep = took / time.Duration(steps)
	})
}

// handOut gives what came of a step, the given one of those that were computed together, to its sequences. It returns how
// many positions of prompts the step computed, and how many tokens it generated. A row after a draft counts only where all
// drafts before it were what the sequence generated.
func (l *loop) handOut(logits [][]float32, step int, now time.Time) (prompt, generated int) {
	l.steps++
	for _, s := range l.batch.seqs {
		prompt += s.advance()
		s.call.figures.step(l.steps, len(l.batch.seqs))
	}
	for _, o := range l.batch.outputs {
		s := o.seq
		if s.call.err != nil || o.drafts > 0 && (s.reason != "" || o.drafts != s.draft.accepted) {
			continue
		}
		before := s.length()
		if err := s.take(o, l.given(o, logits, step), &l.scratch); err != nil {
			s.call.fail(fmt.Errorf("work on the logits of position %d: %w", o.position, err))
			continue
		}
		if s.length() > before {
			generated++
			l.stops.note(s.reason == generation.FinishStop)
			s.draft.compare(s.tokens[before])
			s.call.figures.token(now)
			if s.call.timed {
				s.times = append(s.times, now)
			}
		}
	}
	for _, s := range l.batch.seqs {
		s.settle()
	}
	return prompt, generated
}
