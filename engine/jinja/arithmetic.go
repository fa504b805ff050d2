package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

var (
	errOverflow = errors.New("the result is larger than a 64-bit integer can hold")
	errZero     = errors.New("division by zero")
)

// signed is the unary + and -.
func signed(op string, v Value) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if n, ok := integer(v); ok {
		switch {
		case op == "+":
			return n, nil
		case n == math.MinInt64:
			return nil, errOverflow
		}
		return -n, nil
	}
	if x, ok := v.(float64); ok {
		if op == "-" {
			x = -x
		}
		return x, nil
	}
	return nil, fmt.Errorf("bad operand type for unary %s: '%s'", op, typeName(v))
}

// arithmetic is + - * / // % ** of numbers, strings and lists.
func (r *render) arithmetic(op string, a, b Value) (Value, error) {
	if s, ok := text(a); ok && op == "%" {
		return r.percent(a, s, b)
	}
	for _, v := range [2]Value{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	x, xInt := integer(a)
	y, yInt := integer(b)
	if xInt && yInt {
		return intArithmetic(op, x, y)
	}
	p, pNum := float(a)
	q, qNum := float(b)
	if pNum && qNum {
		if isBig(a) || isBig(b) {
			return nil, errOverflow
		}
		return floatArithmetic(op, p, q)
	}
	switch {
	case op == "+":
		if v, ok, err := r.join(a, b); ok || err != nil {
			return v, err
		}
	case op == "*" && yInt:
		if v, ok, err := r.repeat(a, y); ok || err != nil {
			return v, err
		}
	case op == "*" && xInt:
		if v, ok, err := r.repeat(b, x); ok || err != nil {
			return v, err
		}
	}
	return nil, fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

func isBig(v Value) bool {
	_, ok := v.(*big.Int)
	return ok
}

// float is the value of a number as a float64.
func float(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

func intArithmetic(op string, x, y int64) (Value, error) {
	switch op {
	case "+":
		z := x + y
		if (z > x) != (y > 0) && y != 0 {
			return nil, errOverflow
		}
		return z, nil
	case "-":
		z := x - y
		if (z < x) != (y > 0) && y != 0 {
			return nil, errOverflow
		}
		return z, nil
	case "*":
		return multiply(x, y)
	case "**":
		return intPower(x, y)
	}
	if y == 0 {
		return nil, errZero
	}
	switch {
	case op == "/":
		if max(abs(x), abs(y)) < 1<<53 {
			return float64(x) / float64(y), nil
		}
		q, _ := new(big.Rat).SetFrac(big.NewInt(x), big.NewInt(y)).Float64()
		return q, nil
	case x == math.MinInt64 && y == -1:
		if op == "%" {
			return int64(0), nil
		}
		return nil, errOverflow
	}
	quotient, rest := x/y, x%y
	if rest != 0 && (rest < 0) != (y < 0) {
		quotient--
		rest += y
	}
	if op == "%" {
		return rest, nil
	}
	return quotient, nil
}

func abs(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func multiply(x, y int64) (Value, error) {
	high, low := bits.Mul64(abs(x), abs(y))
	negative := (x < 0) != (y < 0)
	switch {
	case high != 0 || low > 1<<63 || low == 1<<63 && !negative:
		return nil, errOverflow
	case negative:
		return -int64(low), nil
	}
	return int64(low), nil
}

func intPower(x, y int64) (Value, error) {
	if y < 0 {
		return floatArithmetic("**", float64(x), float64(y))
	}
	switch {
	case x == 1 || y == 0:
		return int64(1), nil
	case x == 0:
		return int64(0), nil
	case x == -1:
		return 1 - 2*(y&1), nil
	case y > 63:
		return nil, errOverflow
	}
	var z Value = int64(1)
	for range y {
		var err error
		if z, err = multiply(z.(int64), x); err != nil {
			return nil, err
		}
	}
	return z, nil
}

func floatArithmetic(op string, x, y float64) (Value, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		z := math.Pow(x, y)
		switch {
		case x == 0 && y < 0:
			return nil, errZero
		case x < 0 && y != math.Trunc(y) && !math.IsInf(y, 0):
			return nil, errors.New("a negative number cannot be raised to a fractional power")
		case math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
			return nil, errors.New("the result is too large")
		}
		return z, nil
	}
	if y == 0 {
		return nil, errZero
	}
	if op == "/" {
		return x / y, nil
	}
	rest := math.Mod(x, y)
	quotient := (x - rest) / y
	switch {
	case rest == 0:
		rest = math.Copysign(0, y)
	case (rest < 0) != (y < 0):
		rest += y
		quotient--
	}
	if op == "%" {
		return rest, nil
	}
	if quotient == 0 {
		return math.Copysign(0, x/y), nil
	}
	whole := math.Floor(quotient)
	if quotient-whole > 0.5 {
		whole++
	}
	return whole, nil
}

// join is + of two strings or two lists. It is not ok if a and b are neither.
func (r *render) join(a, b Value) (v Value, ok bool, err error) {
	s, sOK := text(a)
	t, tOK := text(b)
	if sOK && tOK {
		if err := r.room(1, len(s)+len(t)); err != nil {
			return nil, false, err
		}
		if isMarkup(a) || isMarkup(b) {
			return escaped(a) + escaped(b), true, nil
		}
		return s + t, true, nil
	}
	x, xOK := elements(a)
	y, yOK := elements(b)
	_, xList := a.([]Value)
	_, yList := b.([]Value)
	if !xOK || !yOK || xList != yList {
		return nil, false, nil
	}
	if err := r.list(len(x) + len(y)); err != nil {
		return nil, false, err
	}
	z := append(append(make([]Value, 0, len(x)+len(y)), x...), y...)
	if xList {
		return z, true, nil
	}
	return tuple(z), true, nil
}

// repeat is * of a string or list and a number. It is not ok if v is neither.
func (r *render) repeat(v Value, n int64) (out Value, ok bool, err error) {
	n = max(n, 0)
	if s, ok := text(v); ok {
		if n > maxOutput {
			n = maxOutput + 1
		}
		if err := r.room(len(s), int(n)); err != nil {
			return nil, false, err
		}
		if s == "" {
			n = 0
		}
		s = strings.Repeat(s, int(n))
		if isMarkup(v) {
			return markup(s), true, nil
		}
		return s, true, nil
	}
	items, ok := elements(v)
	if !ok {
		return nil, false, nil
	}
	if len(items) == 0 {
		n = 0
	}
	if n > maxOutput {
		return nil, false, errOutput
	}
	if err := r.list(len(items) * int(n)); err != nil {
		return nil, false, err
	}
	z := make([]Value, 0, len(items)*int(n))
	for range n {
		z = append(z, items...)
	}
	if _, isList := v.([]Value); isList {
		return z, true, nil
	}
	return tuple(z), true, nil
}
