package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

const (
	// The limit of fromFew is the fewInSample-th highest logit of a sample, which has one token of
	// fewShare, in blocks of fewBlock. So about fewInSample*fewShare tokens are above the limit.
	fewInSample, fewShare, fewBlock = 64, 32, 16
	// fewMargin is how much more than the mass the tokens above the limit should weigh by estimate.
	fewMargin = 1.005
)

// fromFew draws as fromMass does if about two thousand tokens with the highest logits reach the
// mass, as is usual for trained models. Only their weights are then stored and compared. Otherwise,
// ok is false. lowest is the lowest logit of tokens with a weight.
func (d *drawing) fromFew(lowest float32, share uint32) (id int, ok bool) {
	m := d.memory
	m.sample = m.sample[:0]
	for i := 0; i < len(d.logits); i += fewBlock * fewShare {
		m.sample = append(m.sample, d.logits[i:min(i+fewBlock, len(d.logits))]...)
	}
	if len(m.sample) <= fewInSample {
		return 0, false
	}
	m.highestIDs, m.highestValues = grow(m.highestIDs, maxInserted), grow(m.highestValues, maxInserted)
	insertBest(m.highestIDs[:fewInSample], m.highestValues[:fewInSample], m.sample)
	limit := max(lowest, m.highestValues[fewInSample-1])
	above, below := d.sampled(limit, lowest)
	needed := float64(share) / (1 << 32)
	if best := d.weight(d.best); best+above < needed/2*(best+above+below) {
		return 0, false
	}
	found := d.list(limit)
	if found < needed*fewMargin*(found+below) {
		return 0, false
	}
	total := uint64(0)
	for from := 0; from < len(d.logits); from += compute.DrawPart {
		total += d.weigh(from, min(from+compute.DrawPart, len(d.logits)), lowest, d.highest, nil)
	}
	mass := compute.Mass(share, total)
	if found < float64(mass)*1.0001 {
		return 0, false
	}
	target := d.draw.Target(m.keep(mass))
	for _, t := range m.candidates {
		if target < t.weight {
			return int(t.id), true
		}
		target -= t.weight
	}
	return d.bestID, true // not reached: target is less than the sum of the weights
}

// sampled estimates, from the sample, the sums of the weights of tokens whose logits are at or
// above limit, and of the others.
func (d *drawing) sampled(limit, lowest float32) (above, below float64) {
	m := d.memory
	for _, l := range m.highestValues[:fewInSample] {
		if l >= limit {
			above += d.weight(l)
		}
	}
	a := &m.weigh
	a.X, a.N, a.Scale, a.Lowest, a.Top, a.Out = &m.sample[0], int64(len(m.sample)), float64(d.scale), float64(lowest), int64(d.highest), nil
	d.kernels.Weigh(a)
	return fewShare * above, fewShare * max(float64(a.Sum)-above, 0)
}

func (d *drawing) weight(logit float32) float64 { return float64(d.fixedWeight(logit)) }

func (d *drawing) fixedWeight(logit float32) uint64 {
	mantissa, exponent := compute.Weigh(logit, d.scale)
	return compute.FixedWeight(mantissa, exponent, d.highest)
}

// list makes the tokens whose logits are not below limit the candidates, in the order of their ids.
// It returns the sum of their weights.
func (d *drawing) list(limit float32) (sum float64) {
	m := d.memory
	m.candidates = m.candidates[:0]
	m.ids, m.weights = grow(m.ids, compute.DrawPart), grow(m.weights, compute.DrawPart)
	for from := 0; from < len(d.logits); from += compute.DrawPart {
		a := &m.bracket
		a.X, a.Weights, a.N = &d.logits[from], &m.weights[0], int64(min(compute.DrawPart, len(d.logits)-from))
		a.Low, a.High, a.IDs = float64(limit), math.Inf(1), &m.ids[0]
		d.kernels.Bracket(a)
		for _, i := range m.ids[:a.Count] {
			at := from + int(i)
			w := d.fixedWeight(d.logits[at])
			m.candidates = append(m.candidates, weighed{compute.LogitKey(d.logits[at]), int32(at), w})
			sum += float64(w)
		}
	}
	return sum
}
