package regex

import "math/bits"

// ByteSet is a set of bytes.
type ByteSet [4]uint64

// Add adds c.
func (s *ByteSet) Add(c byte) { s[c>>6] |= 1 << (c & 63) }

// AddRange adds the bytes from lo to hi, both included.
func (s *ByteSet) AddRange(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		s.Add(byte(c))
	}
}

// Has reports whether c is in the set.
func (s *ByteSet) Has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// Len returns how many bytes are in the set.
func (s ByteSet) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union returns the bytes of s and o.
func (s ByteSet) Union(o ByteSet) ByteSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Intersect returns the bytes that s and o share.
func (s ByteSet) Intersect(o ByteSet) ByteSet {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Complement returns the bytes that are not in s.
func (s ByteSet) Complement() ByteSet {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

func (s ByteSet) first() byte {
	for i, w := range s {
		if w != 0 {
			return byte(64*i + bits.TrailingZeros64(w))
		}
	}
	return 0
}

// classes are sets of bytes that no expression so far tells apart.
type classes struct {
	of    [256]uint8
	bytes []byte // one byte of each class
	seen  ByteSet
}

func (c *classes) reset() {
	*c = classes{bytes: []byte{0}}
}

func (c *classes) refineText(text string) {
	for i := range len(text) {
		if !c.seen.Has(text[i]) {
			c.seen.Add(text[i])
			var s ByteSet
			s.Add(text[i])
			c.refine(s)
		}
	}
}

// refine splits the classes that set has a part of.
func (c *classes) refine(set ByteSet) {
	var inside, outside [256]bool
	for i := range 256 {
		if set.Has(byte(i)) {
			inside[c.of[i]] = true
		} else {
			outside[c.of[i]] = true
		}
	}
	var split [256]int
	for class := range len(c.bytes) {
		if inside[class] && outside[class] {
			split[class] = len(c.bytes)
			c.bytes = append(c.bytes, 0)
		}
	}
	for i := 255; i >= 0; i-- {
		if n := split[c.of[i]]; n != 0 && set.Has(byte(i)) {
			c.of[i] = uint8(n)
		}
		c.bytes[c.of[i]] = byte(i)
	}
}

// Classes returns a class for each byte: bytes of one class have the same derivatives of every
// expression that the Builder has. representatives has one byte of each class.
func (b *Builder) Classes() (of [256]uint8, representatives []byte) {
	return b.classes.of, b.classes.bytes
}
