package draft

import "github.com/ingot-run/ingot/engine/internal/cost"

// Step is what the scheduler measured of a step, or of the steps of a run.
type Step struct {
	Size  cost.Size // of each step, with its drafts
	Steps int       // number of steps
	// Seconds is the duration of each step, with all that was done since the step before: its
	// planning, drafting and the delivery of results.
	Seconds float64
	// Waiting reports whether other sequences will take the rows of those that end.
	Waiting bool
}

// trials decides when drafts are allowed. It divides the steps of a program into stretches with
// drafts and stretches without, and compares their measured speed. The faster way is used, and the
// other one is tried again now and then:
//
//	with drafts (t.first)
//	    if they were faster: with (firstSpan), without (controlSteps), with (twice as many), ...
//	    otherwise: without (t.firstRest), with (t.first), without (twice as many), ...
//
// If several steps can be in flight, firstSteps steps without drafts come before.
//
// Stretches are compared as wholes, because drafts also change the steps around them: the results
// of drafts must be read before the next step, so fewer steps are in flight, and the search for
// drafts takes time even if it finds none.
type trials struct {
	first     int     // number of steps of a first stretch with drafts
	firstRest int     // number of steps of a first stretch without drafts after one in which they were slower
	patience  float64 // number of steps that a stretch with drafts may lose before it ends
	ramp      int     // number of steps after drafts until as many steps are in flight as without drafts

	without, with way // what was measured of each way to generate

	// The present stretch. A stretch with drafts is measured from its first drafts on, because
	// steps say nothing about drafts before. Until then, it can only end by the time that it has
	// lost.
	warm   bool    // it is not the unmeasured one
	drafts bool    // it may have drafts
	tried  bool    // it has had drafts
	left   int     // number of steps until its end
	lost   float64 // seconds that it has lost against steps without drafts; negative if it has gained

	// Later stretches.
	rest int // number of steps without drafts, after a stretch in which drafts were slower
	span int // number of steps of the next stretch with drafts

	since int // number of steps since the last one with drafts
}

// way is what was measured of steps with drafts, or of steps without.
type way struct {
	worth     float64 // estimated seconds in which steps without drafts would have generated the same tokens
	estimated float64 // estimated seconds of the steps
	seconds   float64 // measured seconds of the steps
}

// price returns how many seconds it takes to generate what should take a second without drafts.
func (w *way) price() float64 { return ratio(w.seconds, w.worth) }

// slowness returns how much longer than estimated the steps took.
func (w *way) slowness() float64 { return ratio(w.seconds, w.estimated) }

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 1
	}
	return a / b
}

const (
	// If several steps can be in flight, the estimates, which are those of single steps, say little
	// about them. Then firstSteps steps without drafts come first, after unmeasured ones, in which
	// the device reaches its speed.
	unmeasured, firstSteps = 64, 32
	// textSteps and passSteps are values of trials.first for drafts from texts alone, and for
	// drafts by passes, which also have to process prompts before the first draft.
	textSteps, passSteps = 16, 96
	// While drafts are slower, the stretches without them have t.firstRest steps, twice as many,
	// and so on up to maxRests times as many. t.firstRest is shortRest, or longRest if several
	// steps can be in flight: a trial then costs as much as about six steps. While drafts are
	// faster, it is the stretches with them that grow, from firstSpan to longestSpan steps. Between
	// them are controlSteps steps without drafts.
	shortRest, longRest, maxRests        = 128, 384, 4
	firstSpan, longestSpan, controlSteps = 64, 2048, 16
	// textPatience and passPatience are values of trials.patience. maxCredit is the number of steps
	// of its gains that a stretch with drafts may lose again: it ends soon if the text changes.
	textPatience, passPatience, maxCredit = 2, 32, 4
	// worthwhile is the price of drafts, as a share of the price of steps without them, up to which
	// drafts are worth their cost. It is as much below 1 as minGain is above it: prices differ by
	// some percent with the number of prompts and of rows in a stretch, which are not alike.
	worthwhile = 1 / minGain
	// A step counts as at most slowest times as long as expected, because another program may have
	// delayed it.
	slowest = 2
)

func newTrials(maxInFlight int, passes bool) trials {
	t := trials{first: textSteps, patience: textPatience, ramp: max(0, 2*(maxInFlight-1)), firstRest: shortRest}
	if passes {
		t.first, t.patience = passSteps, passPatience
	}
	if t.ramp > 0 {
		t.firstRest = longRest
		t.begin(false, unmeasured)
	} else {
		t.warm = true
		t.begin(true, t.first)
	}
	t.since, t.span, t.rest = t.ramp, t.first, t.firstRest
	return t
}

// allows reports whether the next step may have drafts.
func (t *trials) allows() bool { return t.drafts }

// relative returns the duration of steps with drafts in relation to those without, if the estimates
// are the same.
func (t *trials) relative() float64 { return t.with.slowness() / t.without.slowness() }

// observe records a step, or the steps of a run. estimate is the expected duration of each, and
// without the one that it would have had without its drafts. saved is the estimated time that steps
// without drafts would have taken for the tokens of accepted drafts. observe reports whether the
// duration depends on drafts: of this step, or of one shortly before it.
func (t *trials) observe(took Step, drafts bool, estimate, without, saved float64) (depends bool) {
	steps := max(took.Steps, 1)
	depends = drafts || t.since < t.ramp
	if t.since += steps; drafts {
		t.since, t.tried = 0, true
	}

	w, n, seconds := t.present(), float64(steps), took.Seconds
	if w.estimated > 0 {
		seconds = min(seconds, slowest*w.slowness()*estimate)
	}
	worth := n*without + saved
	if t.tried || !t.drafts {
		w.worth, w.estimated, w.seconds = w.worth+worth, w.estimated+n*estimate, w.seconds+n*seconds
		t.left -= steps
	}
	price := t.without.price()
	step := price * without
	if t.drafts {
		t.lost = max(t.lost+n*seconds-price*worth, -maxCredit*step)
	}
	if t.left <= 0 || t.drafts && t.lost > t.patience*step {
		t.next()
	}
	return depends
}

// next ends the present stretch and begins the next one.
func (t *trials) next() {
	switch {
	case !t.warm:
		t.warm, t.without = true, way{}
		t.begin(false, firstSteps)
	case !t.drafts:
		if t.span == t.first { // drafts were slower, or were not tried
			t.with = way{}
		}
		t.begin(true, t.span)
	case t.left > 0 || t.with.price() > worthwhile*t.without.price(): // drafts were slower
		t.begin(false, t.rest)
		t.rest, t.span = min(2*t.rest, maxRests*t.firstRest), t.first
	case t.span == t.first: // drafts were faster for the first time
		t.rest, t.span = t.firstRest, firstSpan
		t.begin(true, t.span)
	default:
		t.span = min(2*t.span, longestSpan)
		t.begin(false, controlSteps)
	}
}

// begin begins a stretch. What was measured before counts half.
func (t *trials) begin(drafts bool, steps int) {
	t.drafts, t.tried, t.left, t.lost = drafts, false, steps, 0
	w := t.present()
	w.worth, w.estimated, w.seconds = w.worth/2, w.estimated/2, w.seconds/2
}

// present returns the way of the present stretch.
func (t *trials) present() *way {
	if t.drafts {
		return &t.with
	}
	return &t.without
}
