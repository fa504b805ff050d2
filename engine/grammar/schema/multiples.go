package schema

import (
	"fmt"
	"math/big"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// multiples returns the numbers of within that are multiples of a positive number, exactly; those
// that are not whole only if fractions is set.
//
// Let the number be p/10^k. A whole number n is a multiple if p/gcd(p, 10^k) divides it. A number
// with j digits after the point, of which the last is not 0, is n/10^j with n not divisible by 10.
// It is a multiple only if j is at most k, and then if p/gcd(p, 10^(k-j)) divides n.
func (s *Schema) multiples(of decimal, within numberSet, fractions bool) (numberSet, error) {
	integers, err := s.divisible(quotient(of.digits, of.scale))
	if err != nil {
		return numberSet{}, err
	}
	out := numberSet{integers: s.meetNodes(within.integers, integers, regex.All)}
	if out.others = regex.Nothing; !fractions {
		return out, nil
	}
	whole := s.number.whole
	if within.others != s.number.all.others { // a bound may have more digits
		whole = s.naturals(new(big.Int), pow10(maxDigits))
	}
	var others []regex.Node
	for j := 1; j <= of.scale; j++ {
		divisor := quotient(of.digits, of.scale-j)
		if divisor.Cmp(big.NewInt(maxFractionDivisor)) > 0 {
			return numberSet{}, errFraction
		}
		digits, err := s.divisible(divisor)
		if err != nil {
			return numberSet{}, err
		}
		fraction := s.re.Concat(s.re.Repeat(s.number.digit, j-1, j-1), s.number.nonzero)
		number := s.re.Concat(s.re.Optional(s.number.minus), whole, s.number.point, fraction)
		others = append(others, s.meetNodes(number, digits, regex.All))
	}
	out.others = s.meetNodes(within.others, s.re.Or(others...), s.number.all.others)
	return out, nil
}

func quotient(p *big.Int, k int) *big.Int {
	return new(big.Int).Quo(p, new(big.Int).GCD(nil, nil, p, pow10(k)))
}

// maxFractionDivisor is the largest divisor of the digits of numbers that are not whole.
const maxFractionDivisor = 1_000

var errFraction = fmt.Errorf("cannot be kept for this number, whose multiples have digits after the point and remainders above %d", maxFractionDivisor)

var errDivisor = fmt.Errorf("cannot be kept for this number, whose multiples have remainders above %d", regex.MaxDivisor)

// divisible returns the spellings whose digits, without sign and point, are a number that d
// divides.
func (s *Schema) divisible(d *big.Int) (regex.Node, error) {
	if d.IsInt64() && d.Int64() == 1 { // of any digits
		return regex.All, nil
	}
	if !d.IsInt64() || d.Int64() > regex.MaxDivisor {
		return regex.Nothing, errDivisor
	}
	return s.re.Divisible(int(d.Int64())), nil
}

var errJoint = fmt.Errorf("cannot be kept with these bounds, since its multiples have remainders above %d: "+
	"use a smaller divisor, a whole one with its bounds in the same schema, or no bounds", regex.MaxJointDivisor)

// jointWork bounds the search for a first multiple within bounds, which finds whether the schema
// has any.
const jointWork = 10_000

// jointMultiples reports whether it can take too long to find multiples that are in a.
func (s *Schema) jointMultiples(a numberSet) bool {
	return s.re.Joint(a.integers) || s.re.Joint(a.others)
}

// hardMultiples is jointMultiples for a schema's own keywords.
func (s *Schema) hardMultiples(a numberSet) bool {
	if s.jointMultiples(a) {
		return true
	}
	_, err := s.re.IsEmpty(a.others, jointWork)
	return err != nil
}
