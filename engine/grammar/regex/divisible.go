package regex

import "fmt"

// MaxDivisor is the largest divisor of Divisible.
const MaxDivisor = 10_000

// Divisible matches the texts of digits, minus signs and points whose digits are a number that
// divisor divides. No digits are the number 0.
func (b *Builder) Divisible(divisor int) Node {
	if divisor < 1 || divisor > MaxDivisor {
		return b.Fail(fmt.Errorf("the divisor %d is not from 1 to %d", divisor, MaxDivisor))
	}
	for _, c := range "0123456789-." {
		b.classes.refineText(string(c))
	}
	return b.remaining(int32(divisor), 0)
}

// remaining matches the texts that are divisible after digits with a remainder.
func (b *Builder) remaining(divisor, remainder int32) Node {
	// Zeros after digits bring no remainder to 0, but other digits do.
	return b.intern(node{op: opDivide, nullable: remainder == 0, exact: true, life: alive, min: divisor, max: remainder})
}

func (b *Builder) divided(k node, c byte) Node {
	switch {
	case c >= '0' && c <= '9':
		return b.remaining(k.min, (10*k.max+int32(c-'0'))%k.min)
	case c == '-' || c == '.':
		return b.remaining(k.min, k.max)
	}
	return Nothing
}
