package regex

import (
	"fmt"
	"slices"
)

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

// MaxJointDivisor is the largest divisor of Divisible in an And with two or more other expressions
// whose texts are found quickly enough. See Builder.Joint.
const MaxJointDivisor = 100

// Joint reports whether n has an And of Divisible, of a divisor above MaxJointDivisor, and of two
// or more other expressions. Finding whether such an And matches any text can take a search of all
// its remainders.
func (b *Builder) Joint(n Node) bool {
	k := b.nodes[n]
	if k.op == opNot {
		return false
	}
	for _, kid := range k.kids {
		large := b.nodes[kid].op == opDivide && b.nodes[kid].min > MaxJointDivisor
		if k.op == opAnd && (large && len(k.kids) > 2 || !large && b.largeDivisor(kid)) || b.Joint(kid) {
			return true
		}
	}
	return false
}

// largeDivisor reports whether a divisor above MaxJointDivisor is in n.
func (b *Builder) largeDivisor(n Node) bool {
	k := b.nodes[n]
	return k.op == opDivide && k.min > MaxJointDivisor || k.op != opNot && slices.ContainsFunc(k.kids, b.largeDivisor)
}

// joinDivisible replaces two or more Divisible of an And by one, whose divisor is their least
// common multiple, if that is within MaxDivisor.
func (b *Builder) joinDivisible(list []Node) []Node {
	at := -1
	for i := 0; i < len(list); i++ {
		k := b.nodes[list[i]]
		switch {
		case k.op != opDivide:
			continue
		case at < 0:
			at = i
			continue
		}
		o := b.nodes[list[at]]
		x, all := o.max, k.min/common(k.min, o.min)*o.min
		for all <= MaxDivisor && x < all && x%k.min != k.max {
			x += o.min
		}
		if all > MaxDivisor || x >= all {
			continue
		}
		b.spend(int(all / o.min / 16))
		list[at] = b.remaining(all, x)
		list = slices.Delete(list, i, i+1)
		i--
	}
	return list
}

func common(x, y int32) int32 {
	for y != 0 {
		x, y = y, x%y
	}
	return x
}

// divisibleLife returns whether any text is matched by Divisible and one other expression, if that
// is made of digits in a way that arithmetic answers it: otherwise, a search has to.
func (b *Builder) divisibleLife(list []Node) life {
	if len(list) != 2 {
		return unknown
	}
	x, y := list[0], list[1]
	if b.nodes[x].op == opDivide {
		x, y = y, x
	}
	if b.nodes[y].op != opDivide || b.nodes[x].op == opDivide {
		return unknown
	}
	s := divisibleSearch{b: b, divisor: int64(b.nodes[y].min), left: maxDivisibleSteps}
	found := s.from(x, nil, int64(b.nodes[y].max))
	b.spend((maxDivisibleSteps - s.left) / 64)
	return found
}

// maxDivisibleSteps bounds one divisibleLife: expressions that are looked at.
const maxDivisibleSteps = 4_000

type divisibleSearch struct {
	b       *Builder
	divisor int64
	left    int
}

// following is the expressions after one.
type following struct {
	node Node
	next *following
}

// from returns whether any text of n and next leads from a remainder to 0.
func (s *divisibleSearch) from(n Node, next *following, remainder int64) life {
	if s.left--; s.left < 0 {
		return unknown
	}
	k := s.b.nodes[n]
	switch k.op {
	case opNothing:
		return dead
	case opEmpty:
		return s.after(next, remainder)
	case opLiteral:
		for i := range len(k.text) {
			var ok bool
			if remainder, ok = s.advance(remainder, k.text[i]); !ok {
				return dead
			}
		}
		return s.after(next, remainder)
	case opBytes:
		found := dead
		for c := range 256 {
			if !s.b.sets[k.set].Has(byte(c)) {
				continue
			}
			if r, ok := s.advance(remainder, byte(c)); ok {
				if found = either(found, s.after(next, r)); found == alive {
					break
				}
			}
		}
		return found
	case opConcat:
		return s.from(k.kids[0], &following{k.kids[1], next}, remainder)
	case opOr:
		found := dead
		for _, kid := range k.kids {
			if found = either(found, s.from(kid, next, remainder)); found == alive {
				break
			}
		}
		return found
	case opRepeat:
		return s.repeated(k, next, remainder)
	}
	return unknown
}

func (s *divisibleSearch) advance(remainder int64, c byte) (int64, bool) {
	switch {
	case c >= '0' && c <= '9':
		return (10*remainder + int64(c-'0')) % s.divisor, true
	case c == '-' || c == '.':
		return remainder, true
	}
	return 0, false
}

func (s *divisibleSearch) after(next *following, remainder int64) life {
	switch {
	case next != nil:
		return s.from(next.node, next.next, remainder)
	case remainder == 0:
		return alive
	}
	return dead
}

// repeated is from for a repetition of any digit. m digits bring a remainder r to all remainders of
// r*10^m + x where x is below 10^m: to every remainder if 10^m is at least the divisor.
func (s *divisibleSearch) repeated(k node, next *following, remainder int64) life {
	var digits ByteSet
	digits.AddRange('0', '9')
	if set, ok := s.b.single(k.kids[0]); !ok || set != digits {
		return unknown
	}
	power, m := int64(1), int32(0)
	for ; m < k.min && power < s.divisor; m++ {
		power *= 10
	}
	found := dead
	for {
		first := power * remainder % s.divisor
		switch {
		case next == nil && (s.divisor-first)%s.divisor < power:
			return alive
		case next != nil:
			for x := range min(power, s.divisor) {
				found = either(found, s.after(next, (first+x)%s.divisor))
				if found == alive || s.left < 0 {
					return found
				}
			}
		}
		if power >= s.divisor || m == k.max {
			return found
		}
		power *= 10
		m++
	}
}
