package jinja

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(_ *render, v Value, _ args) Value {
	if x, ok := v.(float64); ok {
		return math.Abs(x)
	}
	v = signed("+", v)
	if n, ok := v.(int64); ok && n < 0 {
		return signed("-", n)
	}
	return v
}

// filterInt returns the integer that a value represents, or the default. If a string has a
// fraction, the fraction is cut off.
func filterInt(_ *render, v Value, a args) Value {
	defined(v)
	n, ok := integer(v)
	switch {
	case ok:
		return n
	case is[*big.Int](v):
		return v
	}
	x, isFloat := v.(float64)
	if isFloat && math.IsInf(x, 0) {
		fail("int: cannot convert infinity to an integer")
	}
	if s, ok := text(v); ok {
		s = strings.TrimFunc(s, isSpace)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		x, isFloat = parseFloat(s)
	}
	if !isFloat || math.IsNaN(x) || math.IsInf(x, 0) {
		return a.or(0, int64(0))
	}
	if math.Abs(x) >= 1<<63 {
		fail(overflow)
	}
	return int64(x)
}

// parseFloat converts a string as Python's float does. It returns false if the string is not a
// number.
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP_") {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil || errors.Is(err, strconv.ErrRange)
}

func filterFloat(_ *render, v Value, a args) Value {
	defined(v)
	if x, ok := float(v); ok {
		return x
	}
	if s, ok := text(v); ok {
		if x, ok := parseFloat(s); ok {
			return x
		}
	}
	return a.or(0, 0.0)
}

// filterRound rounds to a number of digits after the decimal point. A value halfway between two
// results is rounded to the one with an even last digit.
func filterRound(_ *render, v Value, a args) Value {
	defined(v)
	precision := a.integer(0, 0)
	n, isInt := integer(v)
	x, isFloat := v.(float64)
	switch {
	case !isInt && !isFloat:
		fail("found a value of type '%s' where a float or a 64-bit integer is needed", typeName(v))
	case precision < 0 || precision > 300:
		fail("round: a precision of %d digits is not supported; use 0 to 300", precision)
	case isInt:
		return n
	case math.IsNaN(x) || math.IsInf(x, 0):
		return x
	}
	out, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(precision), 64), 64)
	return out
}
