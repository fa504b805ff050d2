package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number without rounding: digits with the point before the last scale of them.
type decimal struct {
	digits *big.Int
	scale  int // at least 0
}

// maxDigits is how many digits a number of a schema may have when it is written without exponent.
const maxDigits = 400

// parseDecimal reads a JSON number. ok is false if it has too many digits.
func parseDecimal(n json.Number) (d decimal, ok bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n.String()), "e")
	e := 0
	if exponent != "" {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil {
			return d, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	scale := len(fraction) - e
	if len(whole)+len(fraction) > maxDigits || scale > maxDigits || scale < -maxDigits {
		return d, false
	}
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return d, false
	}
	if scale < 0 {
		digits.Mul(digits, pow10(-scale))
		scale = 0
	}
	return decimal{digits, scale}.reduced(), true
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func (d decimal) reduced() decimal {
	ten, rest := big.NewInt(10), new(big.Int)
	for d.scale > 0 {
		q, r := new(big.Int).QuoRem(d.digits, ten, rest)
		if r.Sign() != 0 {
			break
		}
		d = decimal{q, d.scale - 1}
	}
	return d
}

func (d decimal) whole() bool { return d.scale == 0 }

// split returns the digits before and after the point, without the sign.
func (d decimal) split() (whole, fraction string) {
	text := new(big.Int).Abs(d.digits).String()
	if len(text) <= d.scale {
		text = strings.Repeat("0", d.scale-len(text)+1) + text
	}
	return text[:len(text)-d.scale], text[len(text)-d.scale:]
}

// String returns the canonical spelling.
func (d decimal) String() string {
	whole, fraction := d.split()
	sign := ""
	if d.digits.Sign() < 0 {
		sign = "-"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction
}

func (d decimal) compare(o decimal) int {
	scale := max(d.scale, o.scale)
	x := new(big.Int).Mul(d.digits, pow10(scale-d.scale))
	return x.Cmp(new(big.Int).Mul(o.digits, pow10(scale-o.scale)))
}

func (d decimal) negative() decimal { return decimal{new(big.Int).Neg(d.digits), d.scale} }

// floor returns the largest whole number that is not above d.
func (d decimal) floor() *big.Int {
	q, _ := new(big.Int).DivMod(d.digits, pow10(d.scale), new(big.Int)) // Euclidean: rounds down
	return q
}

func (d decimal) ceil() *big.Int {
	q := d.negative().floor()
	return q.Neg(q)
}

// beside returns the float64 next to d in a direction as a decimal. A reader that rounds to float64
// then sees no number between the two as equal to d. Next to 0 it is 1e-20.
func (d decimal) beside(direction int) decimal {
	f, err := strconv.ParseFloat(d.String(), 64)
	if err == nil && math.Abs(f) > 1e-20 {
		next := math.Nextafter(f, math.Inf(direction))
		n, ok := parseDecimal(json.Number(strconv.FormatFloat(next, 'f', -1, 64)))
		if ok && (n.compare(d) > 0) == (direction > 0) && n.compare(d) != 0 {
			return n
		}
	}
	step := decimal{big.NewInt(int64(direction)), 20}
	scale := max(step.scale, d.scale)
	sum := new(big.Int).Mul(d.digits, pow10(scale-d.scale))
	sum.Add(sum, new(big.Int).Mul(step.digits, pow10(scale-step.scale)))
	return decimal{sum, scale}.reduced()
}
