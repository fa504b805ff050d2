package schema

import (
	"math/big"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// numberSet is a set of numbers in canonical decimal spelling, which each number has once: no
// exponent, no leading zeros, no sign of zero. integers has whole numbers, without a point; others
// has the rest, whose last digit is not 0.
type numberSet struct {
	integers, others regex.Node
	exact            bool // spelled as in enum or const alone
}

// maxZeros is how many zeros may follow the last digit of a number.
const maxZeros = 6

// maxWhole and maxFraction are the most digits before and after the point of numbers without
// bounds. They hold all 64-bit integers. A number with one bound may have more if that has more.
const (
	maxWhole    = 20
	maxFraction = 20
)

// numberParts has the expressions that sets of numbers share.
type numberParts struct {
	digit, nonzero, zeros, point, minus, whole regex.Node
	fraction                                   regex.Node // digits of which the last is not 0
	all                                        numberSet
	free                                       regex.Node // all numbers in any spelling
}

func newNumberParts(b *regex.Builder) numberParts {
	var digit, nonzero regex.ByteSet
	digit.AddRange('0', '9')
	nonzero.AddRange('1', '9')
	n := numberParts{digit: b.Bytes(digit), nonzero: b.Bytes(nonzero), point: b.Literal("."), minus: b.Literal("-")}
	n.zeros = b.Repeat(b.Literal("0"), 0, maxZeros)
	n.fraction = b.Concat(b.Repeat(n.digit, 0, maxFraction-1), n.nonzero)
	natural := b.Concat(n.nonzero, b.Repeat(n.digit, 0, maxWhole-1))
	n.whole = b.Or(b.Literal("0"), natural)
	n.all.integers = b.Or(b.Literal("0"), b.Concat(b.Optional(n.minus), natural))
	n.all.others = b.Concat(b.Optional(n.minus), n.whole, n.point, n.fraction)
	n.free = freeNumber(b, &n)
	return n
}

// freeNumber returns all spellings that JSON has for numbers that a float64 can hold: exponents are
// at most 99, or at most 307 after a single digit before the point.
func freeNumber(b *regex.Builder, n *numberParts) regex.Node {
	var e, sign regex.ByteSet
	e.Add('e')
	e.Add('E')
	sign.Add('+')
	sign.Add('-')
	fraction := b.Optional(b.Concat(n.point, b.Repeat(n.digit, 1, maxFraction)))
	exponent := func(digits regex.Node) regex.Node {
		return b.Concat(b.Bytes(e), b.Optional(b.Bytes(sign)), digits)
	}
	short := b.Concat(b.Optional(b.Literal("0")), n.digit)
	short = b.Or(short, b.Concat(n.nonzero, n.digit))
	var to2, to6, to7 regex.ByteSet
	to2.AddRange('1', '2')
	to6.AddRange('1', '6')
	to7.AddRange('0', '7')
	long := b.Or(b.Concat(b.Bytes(to2), n.digit, n.digit), b.Concat(b.Literal("30"), b.Bytes(to7)))
	return b.Or(
		b.Concat(b.Optional(n.minus), n.whole, fraction, b.Optional(exponent(short))),
		b.Concat(b.Optional(n.minus), n.digit, fraction, exponent(long)),
	)
}

func (s *Schema) meetNumbers(a, b numberSet) numberSet {
	return numberSet{
		integers: s.meetNodes(a.integers, b.integers, s.number.all.integers),
		others:   s.meetNodes(a.others, b.others, s.number.all.others),
		exact:    a.exact || b.exact,
	}
}

func (s *Schema) joinNumbers(sets []*Set) numberSet {
	var integers, others []regex.Node
	out := numberSet{exact: true}
	for _, set := range sets {
		a := set.numbers
		integers, others = append(integers, a.integers), append(others, a.others)
		out.exact = out.exact && (a.exact || a.none())
	}
	out.integers = s.joinNodes(integers, s.number.all.integers)
	out.others = s.joinNodes(others, s.number.all.others)
	return out
}

func (a numberSet) none() bool { return a.integers == regex.Nothing && a.others == regex.Nothing }

func (s *Schema) joinNodes(list []regex.Node, all regex.Node) regex.Node {
	if slices.Contains(list, all) {
		return all
	}
	return s.re.Or(list...)
}

func (s *Schema) notNumbers(a numberSet) numberSet {
	return numberSet{
		integers: s.minusNodes(s.number.all.integers, a.integers),
		others:   s.minusNodes(s.number.all.others, a.others),
	}
}

func (s *Schema) minusNodes(all, a regex.Node) regex.Node {
	switch a {
	case all:
		return regex.Nothing
	case regex.Nothing:
		return all
	}
	return s.re.Minus(all, a)
}

// spellNumbers returns the expression of the numbers as they may be written. If there are numbers
// that are not whole, whole ones may end in ".0", and others may end in zeros.
func (s *Schema) spellNumbers(a numberSet) regex.Node {
	all := s.number.all
	switch {
	case a.exact || a.others == regex.Nothing:
		return s.re.Or(a.integers, a.others)
	case a.integers == all.integers && a.others == all.others:
		return s.number.free
	}
	return s.re.Or(
		s.re.Concat(a.integers, s.re.Optional(s.re.Literal(".0"))),
		s.re.Concat(a.others, s.number.zeros),
	)
}

// integersBetween returns the whole numbers from lo to hi, of which nil is no limit.
func (s *Schema) integersBetween(lo, hi *decimal) regex.Node {
	var least, most *big.Int
	if lo != nil {
		least = lo.ceil()
	}
	if hi != nil {
		most = hi.floor()
	}
	zero, one := new(big.Int), big.NewInt(1)
	var list []regex.Node
	if least == nil || least.Sign() < 0 { // negative ones
		from, to := one, (*big.Int)(nil)
		if most != nil && most.Sign() < 0 {
			from = new(big.Int).Neg(most)
		}
		if least != nil {
			to = new(big.Int).Neg(least)
		}
		list = append(list, s.re.Concat(s.number.minus, s.naturals(from, to)))
	}
	if most == nil || most.Sign() >= 0 {
		from := zero
		if least != nil && least.Sign() > 0 {
			from = least
		}
		list = append(list, s.naturals(from, most))
	}
	return s.re.Or(list...)
}

// naturals returns the numbers from lo, which is not negative, to hi, of which nil is no limit.
func (s *Schema) naturals(lo, hi *big.Int) regex.Node {
	if hi != nil && lo.Cmp(hi) > 0 {
		return regex.Nothing
	}
	from := lo.String()
	if hi == nil {
		longer := s.re.Concat(s.number.nonzero, s.re.Repeat(s.number.digit, len(from), max(maxWhole-1, len(from)+2)))
		return s.re.Or(s.sameLength(from, strings.Repeat("9", len(from))), longer)
	}
	to := hi.String()
	if len(from) == len(to) {
		return s.sameLength(from, to)
	}
	list := []regex.Node{
		s.sameLength(from, strings.Repeat("9", len(from))),
		s.sameLength("1"+strings.Repeat("0", len(to)-1), to),
	}
	if len(to)-len(from) > 1 {
		list = append(list, s.re.Concat(s.number.nonzero, s.re.Repeat(s.number.digit, len(from), len(to)-2)))
	}
	return s.re.Or(list...)
}

func (s *Schema) digitRange(lo, hi byte) regex.Node {
	var set regex.ByteSet
	if lo <= hi {
		set.AddRange(lo, hi)
	}
	return s.re.Bytes(set)
}

// sameLength returns the numbers from lo to hi, which have the same number of digits.
func (s *Schema) sameLength(lo, hi string) regex.Node {
	common := 0
	for common < len(lo) && lo[common] == hi[common] {
		common++
	}
	prefix := s.re.Literal(lo[:common])
	if lo, hi = lo[common:], hi[common:]; lo == "" {
		return prefix
	}
	rest := s.re.Repeat(s.number.digit, len(lo)-1, len(lo)-1)
	list := []regex.Node{
		s.re.Concat(s.re.Literal(lo[:1]), s.atLeast(lo[1:])),
		s.re.Concat(s.re.Literal(hi[:1]), s.atMost(hi[1:])),
	}
	if lo[0]+1 < hi[0] {
		list = append(list, s.re.Concat(s.digitRange(lo[0]+1, hi[0]-1), rest))
	}
	return s.re.Concat(prefix, s.re.Or(list...))
}

// atLeast returns the digits that are as many as those of lo and not below them.
func (s *Schema) atLeast(lo string) regex.Node {
	out := regex.Empty
	for i := len(lo) - 1; i >= 0; i-- {
		n := len(lo) - 1 - i
		above := regex.Nothing
		if lo[i] < '9' {
			above = s.re.Concat(s.digitRange(lo[i]+1, '9'), s.re.Repeat(s.number.digit, n, n))
		}
		out = s.re.Or(s.re.Concat(s.re.Literal(lo[i:i+1]), out), above)
	}
	return out
}

func (s *Schema) atMost(hi string) regex.Node {
	out := regex.Empty
	for i := len(hi) - 1; i >= 0; i-- {
		n := len(hi) - 1 - i
		below := regex.Nothing
		if hi[i] > '0' {
			below = s.re.Concat(s.digitRange('0', hi[i]-1), s.re.Repeat(s.number.digit, n, n))
		}
		out = s.re.Or(s.re.Concat(s.re.Literal(hi[i:i+1]), out), below)
	}
	return out
}

// othersBetween returns the numbers from lo to hi that are not whole.
func (s *Schema) othersBetween(lo, hi *decimal) regex.Node {
	if lo == nil && hi == nil {
		return s.number.all.others
	}
	zero := &decimal{digits: new(big.Int)}
	negate := func(d *decimal) *decimal {
		if d == nil {
			return nil
		}
		n := d.negative()
		return &n
	}
	var list []regex.Node
	if lo == nil || lo.digits.Sign() < 0 {
		from := zero
		if hi != nil && hi.digits.Sign() < 0 {
			from = negate(hi)
		}
		list = append(list, s.re.Concat(s.number.minus, s.fractions(from, negate(lo))))
	}
	if hi == nil || hi.digits.Sign() > 0 {
		from := zero
		if lo != nil && lo.digits.Sign() > 0 {
			from = lo
		}
		list = append(list, s.fractions(from, hi))
	}
	return s.re.Or(list...)
}

// fractions returns the positive numbers from lo to hi that are not whole; hi may be nil.
func (s *Schema) fractions(lo, hi *decimal) regex.Node {
	if hi != nil && lo.compare(*hi) > 0 {
		return regex.Nothing
	}
	one := big.NewInt(1)
	floor := lo.floor()
	whole, after := lo.split()
	from := s.fractionFrom(after)
	if hi == nil {
		return s.re.Or(
			s.re.Concat(s.re.Literal(whole+"."), from),
			s.re.Concat(s.naturals(new(big.Int).Add(floor, one), nil), s.number.point, s.number.fraction),
		)
	}
	top, upTo := hi.split()
	to := s.fractionTo(upTo)
	if whole == top {
		return s.re.Concat(s.re.Literal(whole+"."), s.re.And(from, to))
	}
	inside := s.naturals(new(big.Int).Add(floor, one), new(big.Int).Sub(hi.floor(), one))
	return s.re.Or(
		s.re.Concat(s.re.Literal(whole+"."), from),
		s.re.Concat(inside, s.number.point, s.number.fraction),
		s.re.Concat(s.re.Literal(top+"."), to),
	)
}

// fractionFrom returns the digits after the point, of which the last is not 0, that are not below
// lo, whose last digit is not 0 either.
func (s *Schema) fractionFrom(lo string) regex.Node {
	if lo == "" {
		return s.number.fraction
	}
	// After all of lo, more digits may follow.
	out := s.re.Optional(s.number.fraction)
	for i := len(lo) - 1; i >= 0; i-- {
		above := regex.Nothing
		if lo[i] < '9' {
			above = s.re.Concat(s.digitRange(lo[i]+1, '9'), s.re.Optional(s.number.fraction))
		}
		out = s.re.Or(s.re.Concat(s.re.Literal(lo[i:i+1]), out), above)
	}
	return out
}

// fractionTo is fractionFrom for digits that are not above hi.
func (s *Schema) fractionTo(hi string) regex.Node {
	out := regex.Nothing // what may follow hi[:i], with at least one digit
	for i := len(hi) - 1; i >= 0; i-- {
		same := out // after the digit hi[i]
		if hi[i] != '0' {
			same = s.re.Optional(out)
		}
		list := []regex.Node{s.re.Concat(s.re.Literal(hi[i:i+1]), same)}
		if hi[i] > '0' {
			list = append(list, s.re.Concat(s.re.Literal("0"), s.number.fraction))
		}
		if hi[i] > '1' {
			list = append(list, s.re.Concat(s.digitRange('1', hi[i]-1), s.re.Optional(s.number.fraction)))
		}
		out = s.re.Or(list...)
	}
	return out
}
