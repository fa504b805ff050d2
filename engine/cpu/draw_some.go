package cpu

import "github.com/ingot-run/ingot/engine/compute"

// fromSome draws from the tokens that MinP, TopK and TopP keep.
func (d *drawing) fromSome() int {
	m := d.memory
	lowest := max(lowestDrawn, d.best+d.draw.Margin())
	if k := d.draw.TopK; k > 0 && k < len(d.logits) {
		lowest = max(lowest, d.kth(k))
	}
	share := d.draw.Share()
	if share > 0 {
		if id, ok := d.fromFew(lowest, share); ok {
			return id
		}
	}
	m.weights = grow(m.weights, len(d.logits))
	weights := m.weights[:len(d.logits)]
	m.sums = m.sums[:0]
	total := uint64(0)
	for from := 0; from < len(d.logits); from += compute.DrawPart {
		to := min(from+compute.DrawPart, len(d.logits))
		sum := d.weigh(from, to, lowest, d.highest, weights[from:to])
		m.sums = append(m.sums, sum)
		total += sum
	}
	if share > 0 {
		return d.fromMass(weights, lowest, compute.Mass(share, total), total)
	}
	target := d.draw.Target(total)
	for i, sum := range m.sums {
		if target < sum {
			from := i * compute.DrawPart
			return from + reach(weights[from:min(from+compute.DrawPart, len(weights))], target)
		}
		target -= sum
	}
	return d.bestID // not reached: target is less than total
}

// maxInserted is the maximum number of highest logits that are found by insertion into a list.
const maxInserted = 128

// kth returns the k-th highest logit.
func (d *drawing) kth(k int) float32 {
	m := d.memory
	if k > maxInserted {
		m.candidates = m.candidates[:0]
		for i, l := range d.logits {
			m.candidates = append(m.candidates, weighed{compute.LogitKey(l), int32(i), 1})
		}
		cut, _ := m.cut(m.candidates, uint64(k))
		return d.logits[cut.id]
	}
	m.highestIDs, m.highestValues = grow(m.highestIDs, maxInserted), grow(m.highestValues, maxInserted)
	insertBest(m.highestIDs[:k], m.highestValues[:k], d.logits)
	return m.highestValues[k-1]
}

// weighed is a token with the key of its logit and its weight.
type weighed struct {
	key    uint32
	id     int32
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
