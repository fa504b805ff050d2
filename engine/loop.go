package engine

import (
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/cache"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/sample"
)

// loop is the goroutine that owns the model and the sequences: it takes calls in between steps, runs steps as long as
// there are sequences, and waits otherwise. A step that only decodes allocates nothing of its own.
type loop struct {
	model model.Model
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
			fail(l.running, ErrClosed)
			fail(l.waiting, ErrClosed)
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

// step runs one forward pass, hands out its logits, and drafts for the next.
func (l *loop) step() {
	l.steps++
	start := time.Now()
	l.plan()
	b := &l.batch
	b.fill(l.running)
	logits, err := l.model.Forward(&b.Batch)
	if err != nil {
		fail(b.seqs, fmt.Errorf("compute a step of %d rows: %w", len(b.Tokens), err))
		return
	}
	prompt, generated := l.handOut(logits)
	if l.spec != nil {
		if err := l.spec.draft(b, l.running, time.Since(start)); err != nil {
			fail(b.seqs, fmt.Errorf("draft after a step of %d rows: %w", len(b.Tokens), err))
		}
	}
	took := time.Since(start)
	l.meter.update(func(s *Snapshot) {
		s.Steps++
		s.PromptTokens += uint64(prompt)
		s.GeneratedTokens += uint64(generated)
		s.StepTime += took
		s.LastStep = took
	})
}

// handOut gives the logits of a step to its sequences. It returns how many positions of prompts the step computed, and how
// many tokens it generated. A row after a draft counts only where all drafts before it were what the sequence generated.
func (l *loop) handOut(logits [][]float32) (prompt, generated int) {
	for _, s := range l.batch.seqs {
		prompt += s.advance()
		s.call.figures.step(l.steps, len(l.batch.seqs))
	}
	now := time.Now()
	for i, o := range l.batch.outputs {
		s := o.seq
		if s.call.err != nil || o.drafts > 0 && (s.reason != "" || o.drafts != s.draft.accepted) {
			continue
		}
		before := s.length()
		if err := s.take(o.position, logits[i], &l.scratch); err != nil {
			s.call.fail(fmt.Errorf("work on the logits of position %d: %w", o.position, err))
			continue
		}
		if s.length() > before {
			generated++
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
