package draft

import "math"

// MaxTokens is the maximum number of tokens drafted for a sequence in a step.
const MaxTokens = 8

const (
	// recent is the weight of the latest observation in a moving average: acceptance.share and
	// gate.shares.
	recent = 0.05
	// The estimate for one sequence combines the average over all sequences with the sequence's own
	// verified drafts. trust is the weight of the average, as a number of drafts.
	trust = 4.0
	// In a step in which drafting is not worth its cost, each share moves towards prior. forget is
	// the fraction of the difference by which it moves.
	forget = 0.001
	// prior is the share of right drafts that is assumed before any observation, for drafts from
	// n-grams. passPrior is the same for drafts by passes. Both are so high that drafting is tried.
	// A few drafts correct a share that is too high. A share that is too low would never be
	// corrected, because nothing would be drafted.
	prior, passPrior = 0.7, 0.95
)

// acceptance tracks, over all sequences, how often the draft at each depth is right if all drafts
// before it are right.
type acceptance struct {
	prior float64            // assumed share before any observation
	share [MaxTokens]float64 // [depth]

	tried, right [MaxTokens]int // [depth] numbers of drafts of the present step
}

// recentStep is the maximum weight of all drafts of a step in acceptance.share. Many sequences can
// repeat themselves, or stop to, at the same time.
const recentStep = 0.25

func newAcceptance(prior float64) acceptance {
	a := acceptance{prior: prior}
	for d := range a.share {
		a.share[d] = prior
	}
	return a
}

// Observe records the verification of a sequence's drafts. accepted is the number of leading drafts
// that were right.
func (a *acceptance) Observe(drafted, accepted int) {
	for d := range min(drafted, accepted+1) {
		a.tried[d]++
		if d < accepted {
			a.right[d]++
		}
	}
}

// settle moves the shares towards those of the present step, which ends.
func (a *acceptance) settle() {
	for d, n := range a.tried {
		if n > 0 {
			weight := min(1-math.Pow(1-recent, float64(n)), recentStep)
			a.share[d] += weight * (float64(a.right[d])/float64(n) - a.share[d])
		}
	}
	a.tried, a.right = [MaxTokens]int{}, [MaxTokens]int{}
}

type record struct {
	tried, right float64 // numbers of verified drafts and of right drafts; older drafts have less weight
}

// fade is the factor by which each verification reduces the weight of the sequence's earlier
// drafts.
const fade = 0.9

func (r *record) Observe(drafted, accepted int) {
	r.tried = fade*r.tried + float64(min(drafted, accepted+1))
	r.right = fade*r.right + float64(accepted)
}

// rest records a step that drafted nothing. The shares slowly return to prior, so that drafting is
// tried again.
func (a *acceptance) rest() {
	for d := range a.share {
		a.share[d] += forget * (a.prior - a.share[d])
	}
}

// chances returns, for each depth, the probability that a sequence's draft is right if all drafts
// before it are right. It combines the shares over all sequences with the record of the sequence.
func (a *acceptance) chances(r *record) (chances [MaxTokens]float64) {
	for d, p := range a.share {
		chances[d] = (trust*p + r.right) / (trust + r.tried)
	}
	return chances
}
