package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

// loop is the goroutine that owns the model and the sequences: it takes requests from the inbox
// between steps, runs steps as long as there are sequences, and waits otherwise. A step that only
// decodes allocates nothing.
type loop struct {
	model model.Model
	costs *cost.Steps
	top   int // maximum number of highest logits that a step can return for a row
	inbox *inbox
	meter *meter
	done  chan struct{} // closed when the loop has returned

	panics int           // number of successive steps that panicked
	failed chan struct{} // closed, after err is set, when the loop cannot recover from a panic
	err    error

	planner     planner
	batch       batch
	interrupter *interrupter
	guides      *guides
	drawer      drawer
	writer      *writer
	drafting    drafting
	steps       uint64
	present     run
	observed    time.Time                  // when the last step was observed; zero if it failed, or if the loop has waited since
	prepare     func(step int) (more bool) // the method prepareStep as a function value, stored so that a step does not allocate it
}

// run calls turn until the inbox is closed and all requests have ended, or until it cannot recover
// from a panic.
func (l *loop) run() {
	defer close(l.done)
	for open := true; open; {
		if err := recovered(func() { open = l.turn() }); err != nil && !l.recover(err) {
			return
		}
	}
}

// turn takes requests from the inbox, and then runs a step or, without sequences, waits for
// requests. It reports whether the inbox is open.
func (l *loop) turn() (open bool) {
	p := &l.planner
	if open = l.inbox.take(p.enqueue); !open {
		fail(p.running, generation.ErrClosed)
		fail(p.waiting, generation.ErrClosed)
	}
	p.sweep()
	p.admit()
	l.publish()
	l.report(time.Now())
	switch {
	case !open:
	case len(p.running) > 0:
		l.step()
		l.panics = 0
	default:
		<-l.inbox.wake
		l.observed = time.Time{}
	}
	return open
}

// step runs a forward pass, or a run of several, delivers the results, and drafts for the next
// step.
func (l *loop) step() {
	start := time.Now()
	before := cmp.Or(l.observed, start)
	l.observed = time.Time{}
	p, b := &l.planner, &l.batch
	p.plan(start)
	n := p.runLength(l.top, start)
	p.reserveRun(n)
	b.fill(p.running, l.top)
	size := b.size()
	end := start.Add(time.Duration(l.costs.Seconds(size) * float64(time.Second)))
	b.rows.Interrupt = l.interrupter.interrupt(p.arrivals.expected(start), n, end)
	if p.states != nil {
		b.rows.Interrupt = nil // the states of some layers would be those after the step
	}
	l.present = run{max: n}
	r := &l.present
	b.rows.Prepare = nil
	if l.guides.start() || n > 1 {
		b.rows.Prepare = l.prepare
	}
	err := l.model.Decode(&b.rows, n)
	l.guides.finish()
	if err != nil {
		fail(b.seqs, err)
		l.endRun()
		return
	}
	if l.interrupter.interrupted {
		p.arrivals.last = time.Now() // makes the next steps short, so that no further request interrupts one
		return
	}
	prefilling, err := l.drafting.prefill(b)
	if err != nil {
		fail(b.seqs, err)
		return
	}
	n = l.deliverRun()
	equal := size.Rows == len(b.rows.Outputs) // all steps of the run have the same rows
	size = b.meanSize(size, n)
	l.observed = time.Now()
	perStep := func(d time.Duration) float64 { return d.Seconds() / float64(n) }
	took := draft.Step{Size: size, Steps: n, Seconds: perStep(l.observed.Sub(before)), Waiting: len(p.waiting) > 0 || p.successions.follow(len(p.running))}
	counts, depends := l.drafting.observe(b, took)
	if !depends && (n == 1 || equal) {
		l.costs.Observe(size, perStep(l.observed.Sub(start)-prefilling))
	}
	if err := l.drafting.draft(b, p.running, p.expectedPromptRows(start)); err != nil {
		fail(b.seqs, err)
	}
	l.guides.cut(p.running)
	whole := time.Since(start)
	l.meter.update(func(s *Snapshot) {
		s.Steps += uint64(r.steps)
		s.PromptTokens += uint64(r.prompt)
		s.GeneratedTokens += uint64(r.generated)
		s.DraftTokens += uint64(counts.Drafted)
		s.AcceptedTokens += uint64(counts.Accepted)
		s.StepTime += whole
		s.LastStep = whole / time.Duration(r.steps)
	})
}

// deliver delivers the results of a step to its sequences, except the text of the tokens, which the
// writer adds. step is the step's index among the steps in flight. deliver returns how many
// positions of prompts the step computed, and how many tokens it generated. The result of a row
// after drafts is used only if the sequence generated exactly these drafts.
func (l *loop) deliver(step int, now time.Time) (prompt, generated int) {
	b := &l.batch
	l.steps++
	for _, s := range b.seqs {
		prompt += s.advance()
		s.request.figures.step(l.steps, len(b.seqs))
	}
	l.drawer.begin(step, b.rows.Top)
	for _, o := range b.outputs {
		s := o.seq
		if s.request.err != nil || s.stale || o.drafts > 0 && (s.reason != "" || o.drafts != s.draft.Accepted) {
			continue
		}
		before := s.length()
		if err := l.drawer.take(o); err != nil {
			s.request.fail(fmt.Errorf("process the logits at position %d: %w", o.position, err))
			if !errors.Is(err, generation.ErrBadRequest) {
				l.planner.discard(s) // the cache may hold wrong values
			}
		} else if s.length() > before {
			s.draft.Verify(s.tokens[before])
		}
	}
	for _, s := range b.seqs {
		s.settle()
		l.planner.states.settle(s)
	}
	l.guides.follow(b.seqs)
	for _, s := range b.seqs {
		generated += l.count(s, now)
	}
	return prompt, generated
}

// count adds the new tokens of a sequence to the statistics and returns their number. Tokens that a
// constraint has forced at the start of the answer count when the prompt has been computed.
func (l *loop) count(s *sequence, now time.Time) (tokens int) {
	if s.computed < len(s.request.prompt) {
		return 0
	}
	for ; s.counted < len(s.answer()); s.counted++ {
		tokens++
		l.planner.stops.add(s.reason == generation.FinishStop && s.counted+1 == len(s.answer()))
		s.request.figures.token(now)
		if s.request.timed {
			s.times = append(s.times, now)
		}
	}
	return tokens
}

func fail(seqs []*sequence, err error) {
	for _, s := range seqs {
		s.request.fail(err)
	}
}

// publish updates the snapshot between two steps, and then notifies the callers of requests that
// have ended.
func (l *loop) publish() {
	p := &l.planner
	l.meter.update(func(s *Snapshot) {
		s.Running, s.Waiting = len(p.running), len(p.waiting)
		s.PagesUsed = p.pool.Used()
		s.Preemptions = p.preemptions
	})
	if len(p.ended) > 0 {
		l.writer.wait()
	}
	for i, r := range p.ended {
		close(r.done)
		p.ended[i] = nil
	}
	p.ended = p.ended[:0]
}

// report calls the report function of each running request whose next report is due, if the request
// has generated tokens.
func (l *loop) report(now time.Time) {
	for _, s := range l.planner.running {
		r := s.request
		if r.report != nil && r.err == nil && !now.Before(r.nextReport) && len(s.answer()) > 0 {
			r.nextReport = now.Add(r.reportEvery)
			r.report()
		}
	}
}
