package cpu

import (
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// weightless is a distance from the highest logit in octaves, from which on tokens have no weight.
const weightless = 41

// fromSome draws from the tokens that MinP, TopK and TopP keep.
func (d *drawing) fromSome() int {
	lowest := max(lowestDrawn, d.best+d.draw.Margin(), d.best-weightless/d.scale)
	k, share := d.topK(), d.draw.Share()
	if d.onlyTopP() {
		return d.fromMass(lowest, share)
	}
	lowest = d.listHighest(lowest, k)
	l := &d.memory.listed
	d.weighListed(lowest)
	l.total = l.inside
	if share > 0 {
		return d.fromListed(lowest, float32(math.Inf(1)), compute.Mass(share, l.total))
	}
	return d.fromKept(math.Nextafter32(lowest, float32(math.Inf(-1))), nil, d.draw.Target(l.total))
}

// topK returns TopK, or 0 if it keeps all tokens.
func (d *drawing) topK() int {
	if d.draw.TopK >= len(d.logits) {
		return 0
	}
	return d.draw.TopK
}

// onlyTopP reports whether TopP is the only limit of tokens.
func (d *drawing) onlyTopP() bool { return d.draw.Share() > 0 && d.topK() == 0 && d.draw.MinP == 0 }

// listHighest lists the tokens that TopK and MinP keep, which are those from the returned logit on,
// and may list some others. k is 0 without TopK, and lowest is the limit of MinP.
func (d *drawing) listHighest(lowest float32, k int) float32 {
	l := &d.memory.listed
	if k == 0 {
		d.list(lowest)
		return lowest
	}
	limit := max(lowest, d.reached(lowest, k))
	d.list(limit)
	if l.n < k && limit > lowest {
		limit = lowest
		d.list(limit)
	}
	if l.n > k {
		limit = d.kth(k)
	}
	return limit
}

// reached returns a logit that probably at least k tokens reach, but not many more.
func (d *drawing) reached(lowest float32, k int) float32 {
	m := d.memory
	if k > min(len(m.parts), maxInserted) {
		d.takeSample()
		return d.sampledLimit(lowest, k)
	}
	m.bests = m.bests[:0]
	for _, part := range m.parts {
		m.bests = append(m.bests, part.best)
	}
	return m.kth(m.bests, k)
}

// list lists the tokens whose logits are at least low.
func (d *drawing) list(low float32) {
	m := d.memory
	l, a := &m.listed, &m.list
	l.begin(len(d.logits))
	m.nearIDs = grow(m.nearIDs, compute.DrawPart+written)
	a.Low, a.High, a.IDs = float64(low), math.Inf(1), &m.nearIDs[0]
	for p := range m.parts {
		if m.parts[p].best >= low {
			part := d.part(p)
			a.X, a.N, a.Values = &part[0], int64(len(part)), &l.values[l.n]
			d.kernels.List(a)
			l.n += int(a.Count)
		}
		l.ends = append(l.ends, l.n)
		m.sums = append(m.sums[:p], 0)
	}
}

// maxInserted is the maximum number of highest logits that are found by insertion into a list.
const maxInserted = 128

// kth returns the k-th highest of the listed logits.
func (d *drawing) kth(k int) float32 {
	m := d.memory
	values := m.listed.values[:m.listed.n]
	if k <= maxInserted {
		return m.kth(values, k)
	}
	m.ordered = m.ordered[:0]
	for i, v := range values {
		m.ordered = append(m.ordered, weighed{compute.LogitKey(v), int32(i), 1})
	}
	cut, _ := m.cut(m.ordered, uint64(k))
	return values[cut.at]
}

// kth returns the k-th highest of the values.
func (m *scratch) kth(values []float32, k int) float32 {
	m.highestIDs, m.highestValues = grow(m.highestIDs, maxInserted), grow(m.highestValues, maxInserted)
	insertBest(m.highestIDs[:k], m.highestValues[:k], values)
	return m.highestValues[k-1]
}

// weighed is a listed token: the key of its logit, its index in the list and its weight.
type weighed struct {
	key    uint32
	at     int32
	weight uint64
}

// The keys are divided into buckets by their leading bits, then those in one bucket by the next
// bits. The 32 bits take three rounds.
const (
	radixBits    = 11
	radixBuckets = 1 << radixBits
)

// cut adds up weights from the highest key down. It returns a token with the key at which the sum
// reaches mass, and the sum of the weights of all higher keys. It reorders the list.
func (m *scratch) cut(list []weighed, mass uint64) (last weighed, above uint64) {
	for _, shift := range [...]uint{21, 10, 0} {
		clear(m.buckets[:])
		for i := range list {
			m.buckets[list[i].key>>shift&(radixBuckets-1)] += list[i].weight
		}
		bucket := radixBuckets - 1
		for ; bucket > 0 && above+m.buckets[bucket] < mass; bucket-- {
			above += m.buckets[bucket]
		}
		n := 0
		for i := range list {
			if int(list[i].key>>shift&(radixBuckets-1)) == bucket {
				list[n] = list[i]
				n++
			}
		}
		if n == 0 {
			break
		}
		list = list[:n]
	}
	return list[0], above
}
