package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// sample is a sample of the tokens of a row.
type sample struct {
	values  []float32
	weights []float32
	ones    []float32 // the weight 1 for each value
}

const (
	// A sample has one of sampleShare tokens, in blocks of sampleBlock successive tokens.
	sampleBlock, sampleShare = 16, 32
	// Shorter rows are listed as a whole.
	minSampled = 4096
	// minEqual is the minimum number of tokens of equal weight that would give the variance of a
	// sample, for a good estimate; minEqualAgain the one for an estimate after a pass over the row.
	minEqual, minEqualAgain = 300, 30
	// deviations is the margin of an estimate in standard deviations. With a wider margin, more
	// tokens are compared; with a smaller one, more estimates are wrong.
	deviations = 2.5
	// If few tokens of a sample have most of the weight, about fewTokens with the highest logits
	// are compared.
	fewTokens = 2000
)

func (d *drawing) takeSample() {
	s := &d.memory.sample
	s.values = s.values[:0]
	for i := 0; i < len(d.logits); i += sampleBlock * sampleShare {
		s.values = append(s.values, d.logits[i:min(i+sampleBlock, len(d.logits))]...)
	}
}

// firstLimits estimates between which logits the one lies at which the sum of weights reaches the
// share.
func (d *drawing) firstLimits(lowest float32, share uint32) (low, high float32) {
	if len(d.logits) < minSampled {
		return lowest, float32(math.Inf(1))
	}
	d.takeSample()
	low, high, ok := d.limits(lowest, d.best, float64(share)/(1<<32), minEqual)
	if !ok {
		return d.sampledLimit(lowest, fewTokens), float32(math.Inf(1))
	}
	return low, high
}

// lowerLimits is firstLimits after a pass over the row, in which the tokens from low on did not
// reach mass.
func (d *drawing) lowerLimits(lowest, low float32, mass uint64) (newLow, newHigh float32) {
	s, l := &d.memory.sample, &d.memory.listed
	rest := s.values[:0]
	for _, v := range s.values {
		if v < low {
			rest = append(rest, v)
		}
	}
	s.values = rest
	seen := l.above + l.inside
	highest := math.Nextafter32(low, float32(math.Inf(-1)))
	newLow, newHigh, ok := d.limits(lowest, highest, float64(mass-seen)/float64(l.total-seen), minEqualAgain)
	if !ok {
		return lowest, highest
	}
	return newLow, min(newHigh, highest)
}

// limits estimates between which logits the one lies at which the sum of the weights of a sample of
// logits up to highest reaches a share. ok is false if fewer tokens than least have most of the
// weight.
func (d *drawing) limits(lowest, highest float32, share, least float64) (low, high float32, ok bool) {
	m := d.memory
	s := &m.sample
	low, high = lowest, float32(math.Inf(1))
	if len(s.values) == 0 {
		return low, high, false
	}
	m.peak.X, m.peak.N = &s.values[0], int64(len(s.values))
	d.kernels.Peak(&m.peak)
	_, top := compute.Weigh(float32(m.peak.Value), d.scale)
	s.weights = grow(s.weights, cap(s.values))
	sum := float64(d.weigh(s.values, lowest, top, s.weights))
	a := &m.weigh
	a.Scale, a.Top, a.Out = 2*a.Scale, 2*a.Top+1, nil // squares of the weights, over 2^39
	d.kernels.Weigh(a)
	equal := sum / (1 << 39) * sum / float64(a.Sum) // number of tokens of equal weight that would have the same variance
	if !(equal >= least) {
		return low, high, false
	}
	margin := deviations*math.Sqrt(share*(1-share)/equal) + 1/equal
	tolerance := uint64(margin / 4 * sum)
	m.points = m.points[:0]
	all := span{low: lowest, high: highest}
	all.aboveLow = d.aboveLimit(s.values, s.weights, all.low)
	if goal := uint64((share + margin) * sum); goal > 0 && goal <= all.aboveLow {
		r := all
		d.halve(&r, s.values, s.weights, goal, tolerance)
		low = r.low
	}
	if share <= margin {
		return low, high, true
	}
	if goal := uint64((share - margin) * sum); goal > 0 && goal <= all.aboveLow {
		r := all
		r.within(m.points, goal)
		d.halve(&r, s.values, s.weights, goal, tolerance)
		high = r.high
	}
	return low, high, true
}

// sampledLimit returns a logit that, by the sample, more than count tokens reach, but not many
// more.
func (d *drawing) sampledLimit(lowest float32, count int) float32 {
	s := &d.memory.sample
	for len(s.ones) < len(s.values) {
		s.ones = append(s.ones, 1)
	}
	mean := float64(count) / sampleShare
	goal := uint64(mean + 3*math.Sqrt(mean) + 2)
	r := span{low: lowest, high: d.best}
	r.aboveLow = d.aboveLimit(s.values, s.ones, r.low)
	if r.aboveLow <= goal {
		return lowest
	}
	d.halve(&r, s.values, s.ones, goal, goal/4)
	return r.low
}
