package draft

import "math"

// gate decides after each pass whether another pass follows for a sequence. The confidence of a
// draft is the probability that the MTP layer or small model gives it. gate learns how often drafts
// of each confidence are right.
type gate struct {
	shares [classes]float64 // share of right drafts in each class of confidence
	// Token is the expected time of a step per generated token, and Row the time that one more row
	// adds to a step, both in seconds; see planner.
	Token, Row float64
}

// newGate returns a gate whose shares are at about the middle of their classes of confidence.
// Observations then correct them.
func newGate() (g gate) {
	for c := range g.shares {
		g.shares[c] = 1 - 0.75*math.Pow(2, -float64(c))
	}
	return g
}

// classes is the number of classes of confidence. Class c has the confidences from 1-1/2^c up to
// 1-1/2^(c+1). The last class extends to 1.
const classes = 10

func class(confidence float64) int {
	c := -math.Log2(max(1-confidence, 1e-9))
	return min(int(c), classes-1)
}

func (g *gate) Chance(confidence float64) float64 {
	return g.shares[class(confidence)]
}

// Observe records whether a draft was right. It must be called only if all drafts before this one
// were right.
func (g *gate) Observe(confidence float64, right bool) {
	share := &g.shares[class(confidence)]
	if right {
		*share += recent * (1 - *share)
	} else {
		*share -= recent * *share
	}
}

func (g *gate) worthRow(chance float64) bool { return chance*g.Token >= g.Row }

// worthPass reports whether a further draft that is right with the given probability is worth its
// row and a pass of the given seconds.
func (g *gate) worthPass(chance, pass float64) bool { return chance*g.Token >= g.Row+pass }
