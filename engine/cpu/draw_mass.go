package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// fromMass draws from the tokens that TopP keeps: those with the highest logits, as few as needed
// for their weights to reach the share of all. Of equal logits, the lowest ids are kept. lowest is
// the lowest logit of tokens with a weight.
//
// A sample says between which limits the logit lies at which the sum reaches the share. One pass
// over the row adds up all weights and those above the limits, and lists the tokens between them.
// Only these are compared. If the sample was wrong, another pass has limits that follow from the
// sums of the first.
func (d *drawing) fromMass(lowest float32, share uint32) int {
	l := &d.memory.listed
	top := float32(math.Inf(1))
	low, high := d.firstLimits(lowest, share)
	for again := false; ; again = true {
		d.bracket(lowest, low, high)
		mass := compute.Mass(share, l.total)
		switch {
		case l.above >= mass:
			low, high = math.Nextafter32(high, top), top
		case l.above+l.inside >= mass:
			return d.fromListed(low, high, mass)
		case again:
			low, high = lowest, math.Nextafter32(low, -top)
		default:
			low, high = d.lowerLimits(lowest, low, mass)
		}
	}
}

// bracket makes a pass over the row for fromMass.
func (d *drawing) bracket(lowest, low, high float32) {
	m := d.memory
	l, a := &m.listed, &m.bracket
	l.begin(len(d.logits))
	a.Scale, a.Lowest, a.Top, a.Low, a.High = float64(d.scale), float64(lowest), int64(d.highest), float64(low), float64(high)
	for p := range d.parts() {
		part := d.part(p)
		a.X, a.N, a.Values = &part[0], int64(len(part)), &l.values[l.n]
		d.kernels.Bracket(a)
		l.n += int(a.Count)
		l.ends = append(l.ends, l.n)
		l.above += a.Above
		l.total += a.Sum
		m.sums = append(m.sums[:p], a.Above)
	}
	d.weighListed(lowest)
}

// fewCompared is a number of tokens that are compared at once. Of more, the range of their logits
// is first made smaller.
const fewCompared = 50

// fromListed draws as fromMass does. The logit at which the sum of weights reaches mass is one of
// the listed tokens', which are those from low to high.
func (d *drawing) fromListed(low, high float32, mass uint64) int {
	m := d.memory
	l := &m.listed
	r := span{low: math.Nextafter32(low, float32(math.Inf(-1))), high: min(high, d.best), aboveLow: l.inside}
	d.narrow(&r, l.values[:l.n], l.weights[:l.n], mass-l.above, l.inside/uint64(l.n)*fewCompared)
	d.compare(r.low, r.high)
	m.ordered = append(m.ordered[:0], m.candidates...)
	rest := mass - l.above - r.aboveHigh
	last, above := m.cut(m.ordered, rest)
	// Of the tokens with the lowest logit that is kept, as many are kept as are needed.
	count := (rest - above + last.weight - 1) / last.weight
	ties := m.candidates[:0]
	for _, t := range m.candidates {
		if t.key == last.key && len(ties) < int(count) {
			ties = append(ties, t)
		}
	}
	return d.fromKept(l.values[last.at], ties, d.draw.Target(l.above+r.aboveHigh+above+count*last.weight))
}

// compare makes the listed tokens whose logits are above low, up to high, the candidates.
func (d *drawing) compare(low, high float32) {
	m := d.memory
	l, a := &m.listed, &m.list
	m.candidates = m.candidates[:0]
	m.nearIDs, m.nearLogits = grow(m.nearIDs, compute.DrawPart+written), grow(m.nearLogits, compute.DrawPart+written)
	a.Low, a.High, a.IDs, a.Values = float64(math.Nextafter32(low, float32(math.Inf(1)))), float64(high), &m.nearIDs[0], &m.nearLogits[0]
	for from := 0; from < l.n; from += compute.DrawPart {
		a.X, a.N = &l.values[from], int64(min(compute.DrawPart, l.n-from))
		d.kernels.List(a)
		for i, index := range m.nearIDs[:a.Count] {
			at := int32(from) + index
			m.candidates = append(m.candidates, weighed{compute.LogitKey(m.nearLogits[i]), at, uint64(l.weights[at])})
		}
	}
}

// fromKept returns the token with which the sum of weights exceeds target. The weights are those of
// the logits above limit and of the ties, which equal it.
func (d *drawing) fromKept(limit float32, ties []weighed, target uint64) int {
	m := d.memory
	l := &m.listed
	from := 0
	for p, end := range l.ends {
		sum := m.sums[p] + d.aboveLimit(l.values[from:end], l.weights[from:end], limit)
		n := 0
		for n < len(ties) && int(ties[n].at) < end {
			sum += ties[n].weight
			n++
		}
		if target < sum {
			return d.reachKept(p, limit, n, target)
		}
		target -= sum
		from, ties = end, ties[n:]
	}
	return d.bestID // not reached: target is less than the sum of the weights
}

// reachKept is fromKept in a part. ties is the number of its ties.
func (d *drawing) reachKept(p int, limit float32, ties int, target uint64) int {
	m, part := d.memory, d.part(p)
	m.weights = grow(m.weights, compute.DrawPart)
	d.weigh(part, limit, d.highest, m.weights)
	for i, v := range part {
		if v == limit {
			if ties == 0 {
				continue
			}
			ties--
		}
		w := uint64(m.weights[i])
		if target < w {
			return p*compute.DrawPart + i
		}
		target -= w
	}
	return d.bestID // not reached: target is less than the sum of the weights
}
