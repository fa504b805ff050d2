package sample

import (
	"cmp"
	"math"
	"slices"

	"github.com/ingot-run/ingot/engine/generation"
)

// distribution has the tokens that can be drawn, in ascending order of id. The probability of token
// IDs[i] is Weights[i]/Total. No weight is 0.
type distribution struct {
	IDs     []int32
	Weights []float64
	Total   float64 // the sum of Weights, added in order
}

// Draw returns the token for a random number u in [0, 1). The tokens divide [0, 1) into intervals
// whose lengths are their probabilities. Draw returns the token whose interval contains u.
func (d distribution) Draw(u float64) int32 {
	target, sum := u*d.Total, 0.0
	for i, w := range d.Weights {
		if sum += w; sum > target {
			return d.IDs[i]
		}
	}
	return d.IDs[len(d.IDs)-1] // reached only if u*Total was rounded up to Total
}

// only(id) is the distribution in which token id has probability 1.
func (w *Scratch) only(id int32) distribution {
	w.ids = append(w.ids[:0], id)
	w.weights = append(w.weights[:0], 1)
	return distribution{IDs: w.ids, Weights: w.weights, Total: 1}
}

// truncate applies temperature, min-p, top-k and top-p to logits. best is the highest logit. A
// weight is the probability of a token divided by that of the best token:
// exp((logit-best)/temperature). Min-p and top-k are therefore lower bounds on logits, and no
// exponential is computed for the logits that they cut off.
func (w *Scratch) truncate(logits []float32, best float64, p *generation.Sampling) distribution {
	lowest := minLogit(p, best)
	if p.TopK > 0 && p.TopK < len(logits) {
		lowest = max(lowest, float64(w.kth(logits, p.TopK)))
	}
	w.clear()
	total := 0.0
	for id, l := range logits {
		if float64(l) >= lowest {
			total += w.weigh(int32(id), l, best, p)
		}
	}
	return w.topP(total, p)
}

// truncateBest is like truncate, but it gets only the n highest logits, which are those that top-k
// keeps. It adds weights in the same order, by ascending id, so that the sum has the same bits.
func (w *Scratch) truncateBest(b Best, n int, p *generation.Sampling) distribution {
	w.order = w.order[:0]
	for i := range n {
		w.order = append(w.order, i)
	}
	slices.SortFunc(w.order, func(i, j int) int { return cmp.Compare(b.ids[i], b.ids[j]) })
	best := float64(b.values[0])
	lowest := minLogit(p, best)
	w.clear()
	total := 0.0
	for _, i := range w.order {
		if l := b.values[i]; float64(l) >= lowest {
			total += w.weigh(b.ID(i), l, best, p)
		}
	}
	return w.topP(total, p)
}

func minLogit(p *generation.Sampling, best float64) float64 {
	if p.MinP > 0 {
		return best + p.Temperature*math.Log(p.MinP)
	}
	return math.Inf(-1)
}

func (w *Scratch) clear() { w.ids, w.values, w.weights = w.ids[:0], w.values[:0], w.weights[:0] }

func (w *Scratch) weigh(id int32, logit float32, best float64, p *generation.Sampling) float64 {
	weight := math.Exp((float64(logit) - best) / p.Temperature)
	if weight > 0 {
		w.ids = append(w.ids, id)
		w.values = append(w.values, logit)
		w.weights = append(w.weights, weight)
	}
	return weight
}

// topP applies top-p to the candidates and returns their distribution. total is the sum of their
// weights.
func (w *Scratch) topP(total float64, p *generation.Sampling) distribution {
	if p.TopP > 0 && p.TopP < 1 {
		total = w.keepMass(p.TopP*total, total)
	}
	return distribution{IDs: w.ids, Weights: w.weights, Total: total}
}

// maxSorted is the maximum k for which the method kth keeps the k highest values sorted in one
// pass. For a larger k, the method reach is faster.
const maxSorted = 128

func (w *Scratch) kth(logits []float32, k int) float32 {
	if k <= maxSorted {
		w.ids = Top(w.ids[:0], logits, k)
		return logits[w.ids[k-1]]
	}
	cut, _ := w.reach(logits, nil, float64(k))
	return fromKey(cut)
}

// keepMass keeps the candidates with the highest weights, as few as needed for the sum of their
// weights to reach mass. Of candidates with equal weights, it keeps the lowest ids. total is the
// sum of all weights. It returns the sum of the kept weights.
func (w *Scratch) keepMass(mass, total float64) float64 {
	// Candidates with a weight below (total-mass)/n, where n is the number of candidates, can be
	// removed: together, they weigh less than total-mass.
	negligible := (total - mass) / float64(len(w.weights))
	w.keep(func(i int) bool { return w.weights[i] >= negligible })
	cut, above := w.reach(w.values, w.weights, mass)
	total = 0
	w.keep(func(i int) bool {
		k := key(w.values[i])
		if k < cut || k == cut && above >= mass {
			return false
		}
		if k == cut {
			above += w.weights[i]
		}
		total += w.weights[i]
		return true
	})
	return total
}

func (w *Scratch) keep(ok func(i int) bool) {
	n := 0
	for i := range w.ids {
		if ok(i) {
			w.ids[n], w.values[n], w.weights[n] = w.ids[i], w.values[i], w.weights[i]
			n++
		}
	}
	w.ids, w.values, w.weights = w.ids[:n], w.values[:n], w.weights[:n]
}
