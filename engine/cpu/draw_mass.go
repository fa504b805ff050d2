package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// fromMass draws from the tokens that TopP keeps: those with the highest logits, as few as needed
// for their weights to reach mass. Of equal logits, the lowest ids are kept. total is the sum of
// all weights.
func (d *drawing) fromMass(weights []uint64, lowest float32, mass, total uint64) int {
	if low, high, ok := d.bracket(weights, lowest, mass, total); ok {
		if id, ok := d.fromBracket(weights, low, high, mass); ok {
			return id
		}
	}
	m := d.memory
	// Tokens with a weight of at most limit weigh at most total-mass together. Weights are rounded,
	// so that they can increase a little with lower logits: only tokens with a clearly lower weight
	// are dropped at once.
	limit := (total - mass) / uint64(len(weights))
	negligible := limit - min(limit, limit>>16+1)
	m.candidates = m.candidates[:0]
	for i, w := range weights {
		if w > negligible {
			m.candidates = append(m.candidates, weighed{compute.LogitKey(d.logits[i]), int32(i), w})
		}
	}
	target := d.draw.Target(m.keep(mass))
	for _, t := range m.candidates {
		if target < t.weight {
			return int(t.id)
		}
		target -= t.weight
	}
	return d.bestID // not reached: target is less than the sum of the weights
}

// keep sets the weights of the candidates that are not needed to reach mass to 0. It returns the
// sum of the other weights. Candidates must be in the order of their ids.
func (m *scratch) keep(mass uint64) (total uint64) {
	m.ordered = append(m.ordered[:0], m.candidates...)
	last, above := m.cut(m.ordered, mass)
	for i := range m.candidates {
		switch t := &m.candidates[i]; {
		case t.key < last.key || t.key == last.key && above >= mass:
			t.weight = 0
		case t.key == last.key:
			above += t.weight
			total += t.weight
		default:
			total += t.weight
		}
	}
	return total
}

const (
	sampled     = 16  // one of this number of tokens is in the sample
	minInSample = 500 // minimum number of tokens with about equal weights in the sample, for a good estimate
)

// bracket estimates, from a sample of tokens, between which logits the one lies at which the sum of
// weights reaches mass. ok is false if few tokens have almost all of the weight: samples then say
// little, but few tokens have to be compared.
func (d *drawing) bracket(weights []uint64, lowest float32, mass, total uint64) (low, high float32, ok bool) {
	m := d.memory
	m.ordered = m.ordered[:0]
	sum, squares := 0.0, 0.0
	whole := uint64(0)
	for i := 0; i < len(weights); i += sampled {
		if w := weights[i]; w > 0 {
			m.ordered = append(m.ordered, weighed{compute.LogitKey(d.logits[i]), int32(i), w})
			sum += float64(w)
			squares += float64(w) * float64(w)
			whole += w
		}
	}
	equal := sum * sum / squares // number of tokens of equal weight that would give the same variance
	if !(equal >= minInSample) {
		return 0, 0, false
	}
	share := float64(mass) / float64(total)
	margin := 3.5*math.Sqrt(share*(1-share)/equal) + 0.001
	low, high = lowest, float32(math.Inf(1))
	if share+margin < 1 {
		last, _ := m.cut(m.ordered, max(1, uint64((share+margin)*float64(whole))))
		low = d.logits[last.id]
	}
	if share > margin {
		m.ordered = m.ordered[:0]
		for i := 0; i < len(weights); i += sampled {
			if w := weights[i]; w > 0 {
				m.ordered = append(m.ordered, weighed{compute.LogitKey(d.logits[i]), int32(i), w})
			}
		}
		last, _ := m.cut(m.ordered, max(1, uint64((share-margin)*float64(whole))))
		high = d.logits[last.id]
	}
	return low, high, true
}

// fromBracket draws as fromMass does, if the logit at which the sum of weights reaches mass is
// between low and high. Otherwise, ok is false.
func (d *drawing) fromBracket(weights []uint64, low, high float32, mass uint64) (id int, ok bool) {
	m := d.memory
	m.ids, m.candidates, m.sums = grow(m.ids, compute.DrawPart), m.candidates[:0], m.sums[:0]
	above, inside := uint64(0), uint64(0)
	for from := 0; from < len(weights); from += compute.DrawPart {
		a := &m.bracket
		a.X, a.Weights, a.N = &d.logits[from], &weights[from], int64(min(compute.DrawPart, len(weights)-from))
		a.Low, a.High, a.IDs = float64(low), float64(high), &m.ids[0]
		d.kernels.Bracket(a)
		for _, i := range m.ids[:a.Count] {
			at := from + int(i)
			m.candidates = append(m.candidates, weighed{compute.LogitKey(d.logits[at]), int32(at), weights[at]})
			inside += weights[at]
		}
		m.sums = append(m.sums, a.Above)
		above += a.Above
	}
	if above >= mass || above+inside < mass {
		return 0, false
	}
	total := above + m.keep(mass-above)
	for _, t := range m.candidates {
		weights[t.id] = t.weight
		m.sums[t.id/compute.DrawPart] += t.weight
	}
	target := d.draw.Target(total)
	for i, sum := range m.sums {
		if target >= sum {
			target -= sum
			continue
		}
		for at := i * compute.DrawPart; ; at++ {
			if w := weights[at]; d.logits[at] >= low {
				if target < w {
					return at, true
				}
				target -= w
			}
		}
	}
	return d.bestID, true // not reached: target is less than total
}
