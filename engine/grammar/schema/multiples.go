package schema

import (
	"fmt"
	"math/big"

	"github.com/ingot-run/ingot/engine/grammar/regex"
)

// multiples returns the multiples of a positive number, exactly.
//
// Let the number be p/10^k. A whole number n is a multiple if p/gcd(p, 10^k) divides it. A number
// with j digits after the point, of which the last is not 0, is n/10^j with n not divisible by 10.
// It is a multiple only if j is at most k, and then if p/gcd(p, 10^(k-j)) divides n.
func (s *Schema) multiples(of decimal) (numberSet, error) {
	integers, err := s.divisible(quotient(of.digits, of.scale))
	if err != nil {
		return numberSet{}, err
	}
	out := numberSet{integers: s.meetNodes(s.number.all.integers, integers, regex.All)}
	var others []regex.Node
	for j := 1; j <= of.scale; j++ {
		digits, err := s.divisible(quotient(of.digits, of.scale-j))
		if err != nil {
			return numberSet{}, err
		}
		fraction := s.re.Concat(s.re.Repeat(s.number.digit, j-1, j-1), s.number.nonzero)
		number := s.re.Concat(s.re.Optional(s.number.minus), s.number.whole, s.number.point, fraction)
		others = append(others, s.meetNodes(number, digits, regex.All))
	}
	out.others = s.re.Or(others...)
	return out, nil
}

func quotient(p *big.Int, k int) *big.Int {
	return new(big.Int).Quo(p, new(big.Int).GCD(nil, nil, p, pow10(k)))
}

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
