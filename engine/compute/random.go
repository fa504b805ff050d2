package compute

import "math/bits"

// Philox4x32's multipliers and key increments (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	philoxRounds       = 10
)

// philox returns the four random words of Philox4x32-10 for a counter and a key.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxM0, counter[0])
		hi1, lo1 := bits.Mul32(philoxM1, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += philoxW0
		key[1] += philoxW1
	}
	return counter
}

// Random returns the random number for a position of a choice: 64 random bits. It does not depend
// on other draws.
func Random(seed uint64, position, choice int) uint64 {
	p := uint64(position)
	w := philox([4]uint32{uint32(p), uint32(p >> 32), uint32(choice)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return uint64(w[0])<<32 | uint64(w[1])
}
