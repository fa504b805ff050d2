package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

const (
	overflow       = "an operand or the result does not fit into a 64-bit integer"
	divisionByZero = "division by zero"
)

func signed(op string, v Value) Value {
	defined(v)
	n, isInt := integer(v)
	x, isFloat := v.(float64)
	switch {
	case isInt && op == "+":
		return n
	case isInt && n == math.MinInt64:
		fail(overflow)
	case isInt:
		return -n
	case isFloat && op == "+":
		return x
	case isFloat:
		return -x
	}
	fail("the signs + and - and the filter abs need a float or a 64-bit integer, not a value of type '%s'", typeName(v))
	return nil
}

func (r *render) arithmetic(op string, a, b Value) Value {
	if s, ok := a.(string); ok {
		if t, ok := b.(string); ok && op == "+" {
			r.room(1, len(s)+len(t))
			return s + t
		}
		if op == "%" {
			return r.percent(s, b)
		}
	}
	defined(a, b)
	x, xInt := integer(a)
	y, yInt := integer(b)
	if xInt && yInt {
		return intArithmetic(op, x, y)
	}
	p, pNum := float(a)
	q, qNum := float(b)
	if pNum && qNum {
		if is[*big.Int](a) || is[*big.Int](b) {
			fail(overflow)
		}
		return floatArithmetic(op, p, q)
	}
	var v Value
	switch {
	case op == "+":
		v = r.joined(a, b)
	case op == "*" && yInt:
		v = r.repeat(a, y)
	case op == "*" && xInt:
		v = r.repeat(b, x)
	}
	if v == nil {
		fail("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	}
	return v
}

func intArithmetic(op string, x, y int64) Value {
	var z int64
	switch op {
	case "+":
		if z = x + y; (z > x) != (y > 0) && y != 0 {
			fail(overflow)
		}
		return z
	case "-":
		if z = x - y; (z < x) != (y > 0) && y != 0 {
			fail(overflow)
		}
		return z
	case "*":
		high, low := bits.Mul64(magnitude(x), magnitude(y))
		negative := (x < 0) != (y < 0)
		if high != 0 || low > 1<<63 || low == 1<<63 && !negative {
			fail(overflow)
		}
		if negative {
			return -int64(low)
		}
		return int64(low)
	}
	if y == 0 {
		fail(divisionByZero)
	}
	if op == "/" {
		q, _ := new(big.Rat).SetFrac(big.NewInt(x), big.NewInt(y)).Float64()
		return q
	}
	if x == math.MinInt64 && y == -1 {
		if op == "//" {
			fail(overflow)
		}
		return int64(0)
	}
	quotient, rest := x/y, x%y
	if rest != 0 && (rest < 0) != (y < 0) {
		quotient--
		rest += y
	}
	if op == "%" {
		return rest
	}
	return quotient
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func floatArithmetic(op string, x, y float64) Value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	if y == 0 {
		fail(divisionByZero)
	}
	if op == "/" {
		return x / y
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
		return rest
	}
	if quotient == 0 {
		return math.Copysign(0, x/y)
	}
	whole := math.Floor(quotient)
	if quotient-whole > 0.5 {
		whole++
	}
	return whole
}

// joined returns a + b for two lists, for two tuples, and for two strings if at least one of them
// is markup. For other values, it returns nil. As in Python's markupsafe, a plain string is escaped
// for HTML, and the result is markup.
func (r *render) joined(a, b Value) Value {
	s, sOK := text(a)
	t, tOK := text(b)
	if sOK && tOK {
		if !is[markup](a) {
			s = htmlEscapes.Replace(s)
		}
		if !is[markup](b) {
			t = htmlEscapes.Replace(t)
		}
		r.room(1, len(s)+len(t))
		return markup(s + t)
	}
	x, y, ok := bothElements(a, b)
	if !ok {
		return nil
	}
	r.list(len(x) + len(y))
	z := append(append(make([]Value, 0, len(x)+len(y)), x...), y...)
	return sequenceLike(a, z)
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func sequenceLike(v Value, items []Value) Value {
	if is[tuple](v) {
		return tuple(items)
	}
	return items
}

// repeat returns a string, list or tuple repeated n times. For any other value, it returns nil.
func (r *render) repeat(v Value, n int64) Value {
	n = min(max(n, 0), maxOutput+1)
	if s, ok := v.(string); ok {
		r.room(len(s), int(n))
		return strings.Repeat(s, int(n))
	}
	items, ok := elements(v)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		n = 0
	}
	if n > maxOutput {
		failWith(errOutput)
	}
	r.list(len(items) * int(n))
	z := make([]Value, 0, len(items)*int(n))
	for range n {
		z = append(z, items...)
	}
	return sequenceLike(v, z)
}
