package schedule

import (
	"time"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

// run is what loop.step runs: a step, or several between two pauses of the device. The tokens of a
// step are read and delivered while the device computes the forward pass of the next one.
type run struct {
	max               int // maximum number of steps
	begun             int // number of steps whose draws were prepared
	steps             int // number of steps that were delivered
	wasted            int // number of rows after the end of answers
	prompt, generated int // number of positions of prompts that were computed, and of tokens that were generated
}

// A run ends when it has wasted so many rows, or a common step of forced tokens would save so many,
// that they cost as much as the time between two runs. wasteShare is the share of a step that this
// time takes, as a divisor: 0.5 ms and 2 ms on an H100, for 64 sequences of a model with 135
// million parameters. forcedShare is the same if the next step is one with forced tokens: since its
// number of rows is seldom that of an earlier step, some drivers start it more slowly.
const wasteShare, forcedShare = 4, 1.5

// prepareStep is compute.Batch.Prepare. The tokens that the step before has drawn are delivered
// first, because penalties and masks depend on them. Then the masks of the step are computed.
//
// Tokens that a constraint forces within a run are given to the draws of the following steps, a
// token each. The step after the run computes all forced tokens together.
func (l *loop) prepareStep(step int) (more bool) {
	r, b := &l.present, &l.batch
	r.begun++
	rows, forced := len(b.rows.Draws), 0
	if step > 0 {
		l.deliverStep(time.Now())
		b.advance()
		forced = b.redraw()
		r.wasted += rows - len(b.outputs)
		l.guides.start()
	}
	l.guides.finish()
	wasted := r.wasted + rows - b.continuing()
	return step+1 < r.max && wasteShare*float64(wasted)+forcedShare*float64(forced) < float64(rows) && !l.mayAdmit()
}

// mayAdmit reports whether a request has arrived that need not wait for the end of the run.
func (l *loop) mayAdmit() bool {
	if l.inbox.interactive.Load() {
		return true
	}
	return len(l.planner.running) < l.planner.maxSequences && l.inbox.sequences() > 0
}

// deliverRun delivers the results of the run's last step. It returns the number of steps that have
// run.
func (l *loop) deliverRun() (ran int) {
	if len(l.batch.seqs) > 0 {
		l.deliverStep(time.Now())
	}
	l.endRun()
	return max(1, l.present.begun)
}

// deliverStep delivers the results of the run's first step that was not delivered.
func (l *loop) deliverStep(end time.Time) {
	r := &l.present
	if r.steps == 0 {
		l.writer.begin(l.batch.seqs)
	}
	prompt, generated := l.deliver(r.steps, end)
	r.steps, r.prompt, r.generated = r.steps+1, r.prompt+prompt, r.generated+generated
}

// endRun writes the text of the tokens that were delivered.
func (l *loop) endRun() {
	if l.present.steps > 0 {
		l.writer.start()
	}
}

// meanSize returns the mean size of the steps of a run. size is that of the first one, which may
// have rows of prompts and of forced tokens.
func (b *batch) meanSize(size cost.Size, steps int) cost.Size {
	if size.Rows == len(b.rows.Outputs) || steps == 1 {
		return size
	}
	further := cost.Size{Rows: len(b.rows.Outputs), Outputs: len(b.rows.Outputs)}
	for _, row := range b.rows.Outputs {
		further.Reads += int(b.rows.Positions[row]) + 2
	}
	mean := func(first, later int) int { return (first + (steps-1)*later) / steps }
	return cost.Size{Rows: mean(size.Rows, further.Rows), Outputs: mean(size.Outputs, further.Outputs), Reads: mean(size.Reads, further.Reads)}
}
