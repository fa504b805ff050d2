package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(_ *render, v Value, _ args) (Value, error) {
	switch x := v.(type) {
	case float64:
		return math.Abs(x), nil
	case *big.Int:
		return new(big.Int).Abs(x), nil
	case *undefined:
		return nil, x.err()
	}
	n, ok := integer(v)
	if !ok {
		return nil, fmt.Errorf("bad operand type for abs(): '%s'", typeName(v))
	}
	if n < 0 {
		return signed("-", n)
	}
	return n, nil
}

// filterInt is the integer that a value stands for, or the default. A string may hold a fraction, which is cut off.
func filterInt(_ *render, v Value, a args) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if n, ok := integer(v); ok {
		return n, nil
	}
	if isBig(v) {
		return v, nil
	}
	if x, ok := v.(float64); ok && math.IsInf(x, 0) {
		return nil, errors.New("cannot convert float infinity to integer")
	}
	x, isFloat := v.(float64)
	if s, ok := text(v); ok {
		base, err := a.integer(1, 10)
		if err != nil {
			return nil, err
		}
		if n, ok := parseInt(s, int(base)); ok {
			return n, nil
		}
		x, isFloat = parseFloat(s)
	}
	if !isFloat || math.IsNaN(x) || math.IsInf(x, 0) {
		return a.or(0, int64(0)), nil
	}
	n, _ := big.NewFloat(math.Trunc(x)).Int(nil)
	if n.IsInt64() {
		return n.Int64(), nil
	}
	return n, nil
}

// parseInt is Python's int of a string.
func parseInt(s string, base int) (Value, bool) {
	s = strings.TrimFunc(s, isSpace)
	if base != 0 && (base < 2 || base > 36) || !validUnderscores(s) {
		return nil, false
	}
	digits := strings.ReplaceAll(s, "_", "")
	sign := ""
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		sign, digits = digits[:1], digits[1:]
	}
	if len(digits) > 1 && digits[0] == '0' {
		prefix := map[byte]int{'x': 16, 'o': 8, 'b': 2}[digits[1]|0x20]
		switch {
		case prefix != 0 && (base == prefix || base == 0):
			base, digits = prefix, digits[2:]
		case base == 0 && strings.Trim(digits, "0") != "":
			return nil, false
		}
	}
	if base == 0 {
		base = 10
	}
	if digits == "" || digits[0] == '-' || digits[0] == '+' || len(digits) > maxDigits {
		return nil, false
	}
	if n, err := strconv.ParseInt(sign+digits, base, 64); err == nil {
		return n, true
	}
	n, ok := new(big.Int).SetString(sign+digits, base)
	return n, ok
}

// maxDigits is the length of the longest integer in a string, which is Python's limit too.
const maxDigits = 4300

// parseFloat is Python's float of a string.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if !validUnderscores(s) || strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return x, err == nil || errors.Is(err, strconv.ErrRange)
}

// validUnderscores says whether every underscore stands between two digits or letters.
func validUnderscores(s string) bool {
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || !isAlnum(rune(s[i-1])) || !isAlnum(rune(s[i+1]))) {
			return false
		}
	}
	return true
}

func filterFloat(_ *render, v Value, a args) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if x, ok := float(v); ok {
		return x, nil
	}
	if s, ok := text(v); ok {
		if x, ok := parseFloat(s); ok {
			return x, nil
		}
	}
	return a.or(0, 0.0), nil
}

func filterRound(_ *render, v Value, a args) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	precision, err := a.integer(0, 0)
	if err != nil {
		return nil, err
	}
	method, err := a.text(1, "common")
	if err != nil {
		return nil, err
	}
	n, isInt := integer(v)
	x, ok := float(v)
	switch {
	case !ok || isBig(v):
		return nil, fmt.Errorf("a number is needed, not '%s'", typeName(v))
	case method == "common" && isInt:
		return roundInt(n, precision)
	case method == "common":
		return roundFloat(x, precision)
	case method != "ceil" && method != "floor":
		return nil, errors.New("method must be common, ceil or floor")
	}
	fn := math.Ceil
	if method == "floor" {
		fn = math.Floor
	}
	scale := math.Pow(10, float64(precision))
	scaled := fn(x * scale)
	if math.IsInf(scaled, 0) || math.IsNaN(scaled) || scale == 0 {
		return nil, errors.New("the number cannot be rounded")
	}
	return scaled / scale, nil
}

// roundFloat rounds the exact value to an even last digit in a tie, as Python does.
func roundFloat(x float64, precision int64) (Value, error) {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0) || precision > 323:
		return x, nil
	case precision < -308:
		return math.Copysign(0, x), nil
	case precision >= 0:
		out, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(precision), 64), 64)
		return out, err
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-precision), nil)
	exactly, _ := new(big.Float).SetFloat64(x).Rat(nil)
	n := roundRat(exactly.Quo(exactly, new(big.Rat).SetInt(unit)))
	out, _ := new(big.Float).SetInt(n.Mul(n, unit)).Float64()
	return math.Copysign(out, x), nil
}

func roundInt(n, precision int64) (Value, error) {
	if precision >= 0 {
		return n, nil
	}
	if precision < -19 {
		return int64(0), nil
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-precision), nil)
	rounded := roundRat(new(big.Rat).SetFrac(big.NewInt(n), unit))
	if rounded.Mul(rounded, unit); !rounded.IsInt64() {
		return nil, errOverflow
	}
	return rounded.Int64(), nil
}

// roundRat is the nearest integer, the even one of two.
func roundRat(q *big.Rat) *big.Int {
	double := new(big.Int).Mul(q.Num(), big.NewInt(2))
	double.Add(double, q.Denom())
	denominator := new(big.Int).Mul(q.Denom(), big.NewInt(2))
	n, rest := new(big.Int).DivMod(double, denominator, new(big.Int))
	if rest.Sign() == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

func filterSum(r *render, v Value, a args) (Value, error) {
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	g := newGetter(a.or(0, nil), true)
	sum := a.or(1, int64(0))
	if _, ok := text(sum); ok {
		return nil, errors.New("strings cannot be summed, use join")
	}
	for {
		item, ok, err := it.step()
		if err != nil || !ok {
			return sum, err
		}
		if item, err = g.get(r, item); err != nil {
			return nil, err
		}
		if sum, err = r.arithmetic("+", sum, item); err != nil {
			return nil, err
		}
	}
}
