package draft

import (
	"cmp"

	"github.com/ingot-run/ingot/engine/internal/cost"
)

// Step is what the scheduler measured of a step, or of several steps in flight together.
type Step struct {
	Size    cost.Size // of each step, with its drafts
	Steps   int       // number of steps
	Seconds float64   // duration of each step
	// Waiting reports whether other sequences will take the rows of those that end.
	Waiting bool
}

// ledger compares the time that drafting takes with the time that it saves, as measured. It stops
// drafting while the difference is more than a small share of the run, because estimates of
// acceptance and of the cost of rows can be wrong: results of drafts must be read before the next
// step, drawing takes time, and texts change.
type ledger struct {
	allowance float64 // what drafting may lose in addition to budget, in steps

	ramp  int     // steps after a step with drafts until as many steps are in flight as without drafts
	slow  float64 // duration of steps with drafts, divided by the estimate
	lost  float64 // seconds that drafting has taken, less those that it has saved
	spent float64 // seconds of all steps
	last  float64 // expected seconds of the last step without its drafts
	since int     // steps since the last step with drafts
	plain int     // steps since a step whose duration is known not to depend on drafts
	due   int     // number of such steps that must come before drafts are allowed
	every int     // value of plain from which on such steps are due
	// control is the number of such steps. If it is more than 1, they are in flight together, so
	// their duration does not depend on drafts before them.
	control int
	// pace is the duration of steps that do not depend on drafts, divided by the estimate, by kind:
	// of steps without prompts and of steps with prompts. 0 if there was no such step.
	pace [2]float64
	// judged is the estimated time, of each kind of steps, that pace has entered into lost. If pace
	// changes, lost changes too.
	judged [2]float64
}

const (
	// budget is the share of the time of all steps that drafting may lose. maxCredit is what it may
	// lose of earlier savings, in steps.
	budget, maxCredit = 0.005, 8
	// textAllowance and passAllowance are values of ledger.allowance for drafts from texts alone,
	// and for drafts by passes, which also have to process prompts before the first draft.
	textAllowance, passAllowance = 2, 64
	// maxBudget limits budget, in steps, so that a text that changes after a long time without
	// drafts costs little.
	maxBudget = 64
	// After controlEvery steps without a comparison, nothing is drafted until there is one: the
	// duration of steps without drafts is measured again. If several steps can be in flight, the
	// estimates, which are those of single steps, say little about it. Then firstSteps steps come
	// before the first drafts, since the first steps of a program can be slow. Nothing is drafted
	// for controlSteps steps after firstControl steps, after twice as many, and so on.
	firstControl, controlEvery, controlSteps, firstSteps = 16, 1024, 8, 24
	// slower is the factor of the weight of steps that take longer than expected in ledger.pace.
	// The first steps of a kind take long on some devices, and would make drafts look cheap.
	slower = 0.1
)

func newLedger(maxInFlight int, passes bool) ledger {
	l := ledger{allowance: textAllowance, ramp: max(0, 2*(maxInFlight-1)), slow: 1, every: controlEvery, control: 1}
	if passes {
		l.allowance = passAllowance
	}
	if l.ramp > 0 && !passes {
		l.since, l.due, l.every, l.control = l.ramp, firstSteps, firstControl, controlSteps
	}
	return l
}

// allows reports whether the next step may have drafts.
func (l *ledger) allows() bool {
	return l.due == 0 && l.lost <= min(budget*l.spent, maxBudget*l.last)+l.allowance*l.last
}

// relative returns the duration of steps with drafts in relation to those without, if the estimates
// are the same.
func (l *ledger) relative() float64 { return l.slow / l.paceOf(0) }

func (l *ledger) paceOf(kind int) float64 { return cmp.Or(l.pace[kind], l.pace[1-kind], 1) }

// observe records a step. estimate is its expected duration, and without the one that it would have
// had without its drafts. saved is the time that the accepted drafts saved. observe reports whether
// the duration depends on drafts: of this step, or of one shortly before it.
func (l *ledger) observe(took Step, drafts bool, estimate, without, saved float64) (depends bool) {
	steps, kind := max(took.Steps, 1), 0
	if took.Size.Rows > took.Size.Outputs {
		kind = 1
	}
	l.spent += took.Seconds * float64(steps)
	if drafts {
		l.since = 0
		l.slow += recent * (ratio(took.Seconds, estimate) - l.slow)
	} else {
		l.slow += min(1, forget*float64(steps)) * (1 - l.slow)
	}
	pace := l.paceOf(kind)
	l.last = pace * without
	depends = drafts || l.since < l.ramp && (l.due == 0 || l.control == 1)
	if depends {
		l.lose((took.Seconds-pace*without)*float64(steps) - pace*saved)
		judged := &l.judged[kind]
		*judged = min(*judged+without*float64(steps)+saved, firstControl*without)
		if l.plain += steps; l.plain >= l.every {
			l.plain, l.due, l.every = 0, l.control, min(2*l.every, controlEvery)
		}
	} else {
		l.compare(ratio(took.Seconds, without), steps, kind)
	}
	if !drafts {
		l.since += steps
	}
	return depends
}

// compare records steps whose duration does not depend on drafts.
func (l *ledger) compare(ratio float64, steps, kind int) {
	before, after := l.paceOf(kind), min(ratio, 1)
	if p := l.pace[kind]; p > 0 {
		weight := min(0.5, recent*float64(steps))
		if ratio > p {
			weight *= slower
		}
		after = p + weight*(ratio-p)
	}
	l.pace[kind] = after
	l.lose((before - after) * l.judged[kind])
	l.plain, l.due = 0, max(0, l.due-steps)
}

// ratio limits the influence of a step that another program, or its preparation, has delayed.
func ratio(seconds, estimate float64) float64 {
	if estimate <= 0 {
		return 1
	}
	return min(max(seconds/estimate, 0.5), 2)
}

func (l *ledger) lose(seconds float64) { l.lost = max(l.lost+seconds, -maxCredit*l.last) }
