package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/sample"
)

// loop is the goroutine that owns the model and the sequences: it takes requests from the inbox between steps, runs steps as long as
// there are sequences, and waits otherwise. A step that only decodes allocates nothing.
type loop struct {
	queue
	top   int // maximum number of highest logits that a step can return for a row
	inbox *inbox
	meter *meter
	done  chan struct{} // closed when the loop has returned

	panics int           // number of successive steps that panicked
	failed chan struct{} // closed, after err is set, when the loop cannot recover from a panic
	err    error

	batch       batch
	interrupter *interrupter
	drafting    drafting
	scratch     sample.Scratch
	steps       uint64
}

// run calls turn until the inbox is closed and all requests that are not done have failed. It also returns if it cannot recover from a
// panic.
func (l *loop) run() {
	defer close(l.done)
	for open := true; open; {
		if err := recovered(func() { open = l.turn() }); err != nil && !l.recover(err) {
			return
		}
	}
}

// turn takes requests from the inbox, and then runs a step or, without sequences, waits for requests. It reports whether the inbox is open.
func (l *loop) turn() (open bool) {
	if open = l.inbox.take(l.enqueue); !open {
		fail(l.running, generation.ErrClosed)
		fail(l.waiting, generation.ErrClosed)
	}
	l.sweep()
	l.admit()
	l.publish()
	l.report(time.Now())
	switch {
	case !open:
	case len(l.running) > 0:
		l.step()
		l.panics = 0
	default:
		<-l.inbox.wake
	}
	return open
}

// step runs a forward pass, or several in flight, delivers the results, and drafts for the next step.
func (l *loop) step() {
	start := time.Now()
	l.plan(start)
	n := l.inFlight(l.top, start)
	b := &l.batch
	b.fill(l.running, l.top)
	size := b.size()
	b.Interrupt = l.interrupter.interrupt(l.people.expected(start), n, start.Add(duration(l.Steps.Seconds(size))))
	if err := l.Model.Decode(&b.Batch, n); err != nil {
		fail(b.seqs, err)
		return
	}
	if l.interrupter.interrupted {
		l.people.last = time.Now() // makes the next steps short, so that no further request interrupts one
		return
	}
	prefilling, err := l.drafting.prefill(b)
	if err != nil {
		fail(b.seqs, err)
		return
	}
	computed := time.Since(start)
	steps, prompt, generated := 0, 0, 0
	for ; steps < n && (steps == 0 || b.advance()); steps++ {
		// The end of a step is an estimate, because the loop waited for all n steps together.
		end := start.Add(computed * time.Duration(steps+1) / time.Duration(n))
		p, g := l.deliver(steps, end)
		prompt, generated = prompt+p, generated+g
	}
	l.Steps.Observe(size, (time.Since(start)-prefilling).Seconds()/float64(n))
	counts := l.drafting.observe(b, n)
	if err := l.drafting.draft(b, l.running, l.expectedPromptRows(start)); err != nil {
		fail(b.seqs, err)
	}
	took := time.Since(start)
	l.meter.update(func(s *Snapshot) {
		s.Steps += uint64(steps)
		s.PromptTokens += uint64(prompt)
		s.GeneratedTokens += uint64(generated)
		s.DraftTokens += uint64(counts.Drafted)
		s.AcceptedTokens += uint64(counts.Accepted)
		s.StepTime += took
		s.LastStep = took / time.Duration(steps)
	})
}

// deliver delivers the results of a step to its sequences. step is the step's index among the steps in flight. deliver returns how many
// positions of prompts the step computed, and how many tokens it generated. The result of a row after drafts is used only if the sequence
// generated exactly these drafts.
func (l *loop) deliver(step int, now time.Time) (prompt, generated int) {
	l.steps++
	for _, s := range l.batch.seqs {
		prompt += s.advance()
		s.call.figures.step(l.steps, len(l.batch.seqs))
	}
	for _, o := range l.batch.outputs {
		s := o.seq
		if s.call.err != nil || s.stale || o.drafts > 0 && (s.reason != "" || o.drafts != s.Accepted) {
			continue
		}
		before := s.Length()
		if err := s.take(o, l.batch.result(l.Model, o, step), &l.scratch); err != nil {
			s.call.fail(fmt.Errorf("process the logits at position %d: %w", o.position, err))
			if !errors.Is(err, generation.ErrBadRequest) {
				l.discard(s) // the cache may hold wrong values
			}
			continue
		}
		if s.Length() > before {
			generated++
			l.stops.add(s.reason == generation.FinishStop)
			s.Verify(s.Tokens[before])
			s.call.figures.token(now)
			if s.call.timed {
				s.times = append(s.times, now)
			}
		}
	}
	for _, s := range l.batch.seqs {
		s.settle()
		s.call.stream.add(s)
	}
	return prompt, generated
}

// fail fails the requests of sequences.
func fail(seqs []*sequence, err error) {
	for _, s := range seqs {
		s.call.fail(err)
	}
}

// publish updates the snapshot between two steps, and then notifies the callers of requests that have ended.
func (l *loop) publish() {
	l.meter.update(func(s *Snapshot) {
		s.Running, s.Waiting = len(l.running), len(l.waiting)
		s.PagesUsed = l.pool.Used()
		s.Preemptions = l.preemptions
	})
	for i, c := range l.ended {
		close(c.done)
		l.ended[i] = nil
	}
	l.ended = l.ended[:0]
}
