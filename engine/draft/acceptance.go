package draft

// MaxTokens is the maximum number of tokens drafted for a sequence in a step.
const MaxTokens = 8

const (
	// recent is the weight of one observation of a whole step in the running share of a depth.
	recent = 0.05
	// trust is the number of observations of one sequence that have the same weight as the shares of all sequences.
	trust = 4.0
	// forget is how far a step without drafts moves a share back to prior.
	forget = 0.001
	// prior is the assumed share of right drafts at a depth without observations, for drafts that need no pass. passPrior is the same for
	// drafts that need passes. Both are high enough that drafting is tried: a few drafts correct a share that is too high, but nothing
	// corrects one that is too low.
	prior, passPrior = 0.7, 0.95
)

// acceptance is how often the draft at each depth is right, given that those before it were.
type acceptance struct {
	prior float64 // share that is assumed before anything was observed
	share [MaxTokens]float64
	known bool
}

// Observe records a verified chain: drafted tokens, of which the first accepted were right.
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

// record is what a sequence's own drafts have shown.
type record struct {
	tried, right float64 // tokens that were verified, fading with time
}

// fade is the weight that a sequence's earlier drafts keep after each further chain.
const fade = 0.9

// Observe records a verified chain.
func (r *record) Observe(drafted, accepted int) {
	r.tried = fade*r.tried + float64(min(drafted, accepted+1))
	r.right = fade*r.right + float64(accepted)
}

// rest records that nothing was drafted because it would not have paid. Earlier observations slowly lose their weight, so
// that drafting is tried again.
func (a *acceptance) rest() {
	a.init()
	for d := range a.share {
		a.share[d] += forget * (a.prior - a.share[d])
	}
}

// chances returns the probabilities that the draft at each depth of a sequence is right, given that those before it are: the shares seen
// over all sequences, moved towards the shares of the sequence itself.
func (a *acceptance) chances(r *record) (chances [MaxTokens]float64) {
	a.init()
	for d, p := range a.share {
		chances[d] = (trust*p + r.right) / (trust + r.tried)
	}
	return chances
}
