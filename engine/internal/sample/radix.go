package sample

import "math"

// The method reach selects a value without sorting. It adds up weights in buckets by the leading
// bits of the values' keys, finds the bucket that contains the value, and continues within this
// bucket. The 32 bits of a key take three rounds.
const (
	radixBits    = 11
	radixBuckets = 1 << radixBits
)

// digits has the bits of the keys that each round uses.
var digits = [...]struct{ shift, width uint }{{21, radixBits}, {10, radixBits}, {0, 10}}

// reach adds up weights from the highest value down. It returns the key of the value at which the
// sum reaches mass, and the sum of the weights of all higher values. If weights is nil, each weight
// is 1. A mass of 3, for example, then finds the third highest value. If all weights together do
// not reach mass, reach returns the key of the lowest value. There must be at least one value, and
// weights must be above 0.
func (w *Scratch) reach(values []float32, weights []float64, mass float64) (cut uint32, above float64) {
	var prefix uint32 // the leading bits of cut that are known so far
	for _, d := range digits {
		w.tally(values, weights, prefix, d.shift, d.width)
		bucket := -1
		for b := 1<<d.width - 1; b >= 0; b-- {
			if w.sums[b] == 0 {
				continue
			}
			if bucket >= 0 {
				above += w.sums[bucket]
			}
			bucket = b
			if above+w.sums[b] >= mass {
				break
			}
		}
		prefix = prefix<<d.width | uint32(bucket)
	}
	return prefix, above
}

// tally adds up the weights of the values whose keys begin with the bits in prefix. w.sums[i] is
// the sum for the keys whose next bits, as many as width says, have the value i.
func (w *Scratch) tally(values []float32, weights []float64, prefix uint32, shift, width uint) {
	clear(w.sums[:])
	mask := uint32(1)<<width - 1
	for i, v := range values {
		k := key(v) >> shift
		if k>>width != prefix {
			continue
		}
		if weights == nil {
			w.sums[k&mask]++
		} else {
			w.sums[k&mask] += weights[i]
		}
	}
}

const signBit = 1 << 31

// key converts floats to integers that have the same order. The key of -0 is directly below that
// of 0.
func key(v float32) uint32 {
	b := math.Float32bits(v)
	return b ^ (uint32(int32(b)>>31) | signBit)
}

func fromKey(k uint32) float32 {
	return math.Float32frombits(k ^ (uint32(int32(^k)>>31) | signBit))
}
