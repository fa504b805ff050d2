package draft

import "math"

// Gate decides while a chain of passes is under way how far it goes: by the probability that the drafting layer or model
// itself gives each of its drafts, and by how often drafts of that probability were right.
type Gate struct {
	shares [sureness]float64 // of right drafts, by how sure the drafter was
	known  bool
	// Token is what a token is worth at present, and Row what one more row of a step costs, both in seconds; see Planner.
	Token, Row float64
}

// sureness is the number of classes of probability: each begins half as far from 1 as the one before it.
const sureness = 10

func class(probability float64) int {
	c := -math.Log2(max(1-probability, 1e-9))
	return min(int(c), sureness-1)
}

// Chance is how likely a draft is right that the drafter gives a probability.
func (g *Gate) Chance(probability float64) float64 {
	g.init()
	return g.shares[class(probability)]
}

// Observe records what became of a draft whose predecessors were right.
func (g *Gate) Observe(probability float64, right bool) {
	g.init()
	share := &g.shares[class(probability)]
	if right {
		*share += recent * (1 - *share)
	} else {
		*share -= recent * *share
	}
}

// init takes the drafter at its word until something is known.
func (g *Gate) init() {
	if g.known {
		return
	}
	for c := range g.shares {
		g.shares[c] = 1 - 0.75*math.Pow(2, -float64(c))
	}
	g.known = true
}

// Keeps tells whether a draft that is right with a chance is worth its row of the next step.
func (g *Gate) Keeps(chance float64) bool { return chance*g.Token >= g.Row }

// Goes tells whether a further draft that is right with a chance is worth its pass and its row.
func (g *Gate) Goes(chance, pass float64) bool { return chance*g.Token >= g.Row+pass }
