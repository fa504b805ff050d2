package draft

// MaxTokens is the maximum number of tokens drafted for a sequence in a step.
const MaxTokens = 8

const (
	// recent is the weight of one verified chain in the running share of a depth.
	recent = 0.05
	// trust is the number of verified drafts of one sequence that weigh as much as the shares of all sequences.
	trust = 4.0
	// forget is the fraction of the way back to prior that a share moves in a step without drafts.
	forget = 0.001
	// prior is the assumed share of right drafts before any observation, for n-gram drafts. passPrior is the same for drafts by passes.
	// Both are high enough that drafting is tried: a few drafts correct a share that is too high, but nothing corrects a share that is too
	// low.
	prior, passPrior = 0.7, 0.95
)

// acceptance tracks, over all sequences, how often the draft at each depth is right if all drafts before it are right.
type acceptance struct {
	prior float64 // assumed share before any observation
	share [MaxTokens]float64
	known bool
}

// Observe records a verified chain of drafted tokens, of which the first accepted tokens were right.
func (a *acceptance) Observe(drafted, accepted int) {
	a.init()
	for d := range min(drafted, accepted+1) {
		right := 0.0
		if d < accepted {
			right = 1
		}
		a.share[d] += recent * (right - a.share[d])
	}
}

func (a *acceptance) init() {
	if a.known {
		return
	}
	for d := range a.share {
		a.share[d] = a.prior
	}
	a.known = true
}

// record tracks how many drafts of one sequence were right.
type record struct {
	tried, right float64 // numbers of verified drafts and of right drafts; older chains have less weight
}

// fade is the factor by which each chain reduces the weight of a sequence's earlier chains.
const fade = 0.9

// Observe records a verified chain.
func (r *record) Observe(drafted, accepted int) {
	r.tried = fade*r.tried + float64(min(drafted, accepted+1))
	r.right = fade*r.right + float64(accepted)
}

// rest records a step without drafts because drafting was not worth its cost. The shares slowly return to prior, so that drafting is tried
// again.
func (a *acceptance) rest() {
	a.init()
	for d := range a.share {
		a.share[d] += forget * (a.prior - a.share[d])
	}
}

// chances returns, for each depth, the probability that a sequence's draft is right if all drafts before it are right. It combines the
// shares over all sequences with the record of the sequence.
func (a *acceptance) chances(r *record) (chances [MaxTokens]float64) {
	a.init()
	for d, p := range a.share {
		chances[d] = (trust*p + r.right) / (trust + r.tried)
	}
	return chances
}
