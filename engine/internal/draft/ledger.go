package draft

import "github.com/ingot-run/ingot/engine/internal/cost"

// Step is what the scheduler measured of a step, or of several steps in flight together.
type Step struct {
	Size    cost.Size // of each step, with its drafts
	Steps   int       // number of steps
	Seconds float64   // duration of each step
	// Waiting reports whether other sequences wait for the rows of those that end.
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
	last  float64 // estimated seconds of the last step without its drafts
	since int     // steps since the last step with drafts
	plain int     // steps since a step whose duration is known not to depend on drafts
}

const (
	// budget is the share of the time of all steps that drafting may lose. maxCredit is what it may
	// lose of earlier savings, in steps.
	budget, maxCredit = 0.007, 8
	// textAllowance and passAllowance are values of ledger.allowance for drafts from texts alone,
	// and for drafts by passes, which also have to process prompts before the first draft.
	textAllowance, passAllowance = 2, 64
	// maxBudget limits budget, in steps, so that a text that changes after a long time without
	// drafts costs little.
	maxBudget = 64
	// After controlEvery steps without a comparison, nothing is drafted until there is one: the
	// duration of steps without drafts is measured again.
	controlEvery = 1024
)

func newLedger(maxInFlight int, passes bool) ledger {
	l := ledger{allowance: textAllowance, ramp: max(0, 2*(maxInFlight-1)), slow: 1}
	if passes {
		l.allowance = passAllowance
	}
	return l
}

// allows reports whether the next step may have drafts.
func (l *ledger) allows() bool {
	return l.plain < controlEvery && l.lost <= min(budget*l.spent, maxBudget*l.last)+l.allowance*l.last
}

// observe records a step. estimate is its expected duration, and without the one that it would have
// had without its drafts. saved is the time that the accepted drafts saved. observe reports whether
// the duration depends on drafts: of this step, or of one shortly before it.
func (l *ledger) observe(took Step, drafts bool, estimate, without, saved float64) (depends bool) {
	steps := max(took.Steps, 1)
	l.spent += took.Seconds * float64(steps)
	l.last = without
	if drafts {
		l.since = 0
		l.slow += recent * (min(max(took.Seconds/estimate, 0.5), 2) - l.slow)
	}
	depends = drafts || l.since < l.ramp
	if depends {
		l.lose((took.Seconds-without)*float64(steps) - saved)
		l.plain += steps
	} else {
		l.plain = 0
	}
	if !drafts {
		l.since += steps
	}
	return depends
}

func (l *ledger) lose(seconds float64) { l.lost = max(l.lost+seconds, -maxCredit*l.last) }
