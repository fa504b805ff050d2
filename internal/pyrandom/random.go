// Package pyrandom draws the same numbers as Python's class random.Random, so that results that
// depend on its draws can be reproduced. The generator is the Mersenne Twister MT19937 (M.
// Matsumoto, T. Nishimura, 1998); the draws are those of CPython 3.11, Lib/random.py.
package pyrandom

import (
	"math"
	"math/bits"
)

const (
	size  = 624 // words of the state
	shift = 397
)

// Random is a generator. It is not safe for concurrent use.
type Random struct {
	state [size]uint32
	next  int // index of the next word of state
}

// New returns the generator random.Random(seed).
func New(seed uint64) *Random {
	key := []uint32{uint32(seed)} //nolint:gosec // the low word
	if high := uint32(seed >> 32); high != 0 {
		key = append(key, high)
	}
	r := &Random{next: size}
	r.fill(19650218)
	i, j := 1, 0
	step := func() {
		if i++; i == size {
			r.state[0] = r.state[size-1]
			i = 1
		}
	}
	for range max(size, len(key)) {
		r.state[i] = (r.state[i] ^ r.mixed(i, 1664525)) + key[j] + uint32(j) //nolint:gosec // an index of key
		step()
		j = (j + 1) % len(key)
	}
	for range size - 1 {
		r.state[i] = (r.state[i] ^ r.mixed(i, 1566083941)) - uint32(i) //nolint:gosec // an index of state
		step()
	}
	r.state[0] = 0x80000000
	return r
}

func (r *Random) fill(seed uint32) {
	r.state[0] = seed
	for i := 1; i < size; i++ {
		r.state[i] = r.mixed(i, 1812433253) + uint32(i) //nolint:gosec // an index of state
	}
}

func (r *Random) mixed(i int, factor uint32) uint32 {
	before := r.state[i-1]
	return (before ^ before>>30) * factor
}

// word returns the next 32 random bits.
func (r *Random) word() uint32 {
	if r.next == size {
		r.twist()
		r.next = 0
	}
	y := r.state[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (r *Random) twist() {
	for i := range size {
		y := r.state[i]&0x80000000 | r.state[(i+1)%size]&0x7fffffff
		r.state[i] = r.state[(i+shift)%size] ^ y>>1 ^ y&1*0x9908b0df
	}
}

// below returns a number in [0, n). n must be in [1, 2³²).
func (r *Random) below(n int) int {
	k := bits.Len(uint(n)) //nolint:gosec // n is positive
	for {
		if x := int(r.word() >> (32 - k)); x < n {
			return x
		}
	}
}

// Float returns a number in [0, 1), as the method random does.
func (r *Random) Float() float64 {
	a, b := r.word()>>5, r.word()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}

// Choice returns one of the indices 0 to n-1, as the method choices does for each of its draws.
func (r *Random) Choice(n int) int { return int(r.Float() * float64(n)) }

// Shuffle puts n elements into random order, as the method shuffle does. swap exchanges two of
// them.
func (r *Random) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.below(i+1))
	}
}

// Sample returns k different indices of a population of n, as the method sample does. k must not be
// larger than n.
func (r *Random) Sample(n, k int) []int {
	list := make([]int, k)
	limit := 21.0 // above this size of the population, the indices drawn so far are in a set
	if k > 5 {
		limit += math.Pow(4, math.Ceil(math.Log(float64(3*k))/math.Log(4)))
	}
	if float64(n) <= limit {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range k {
			j := r.below(n - i)
			list[i], pool[j] = pool[j], pool[n-i-1]
		}
		return list
	}
	drawn := make(map[int]bool, k)
	for i := range list {
		j := r.below(n)
		for drawn[j] {
			j = r.below(n)
		}
		drawn[j], list[i] = true, j
	}
	return list
}
