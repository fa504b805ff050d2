package where

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// number returns v as a float and, if it is a whole number, as an integer.
func number(v any) (i int, f float64, whole, ok bool) {
	switch v := v.(type) {
	case int:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	case time.Month:
		return int(v), float64(v), true, true
	case time.Weekday:
		return int(v), float64(v), true, true
	}
	return 0, 0, false, false
}

func isNumber(v any) bool { return numbers.has(kindOf(v)) }

func isNaN(values ...any) bool {
	return slices.ContainsFunc(values, func(v any) bool { f, ok := v.(float64); return ok && math.IsNaN(f) })
}

// integerOf returns a number without its fraction.
func integerOf(v any) int {
	i, f, whole, ok := number(v)
	switch {
	case !ok:
		fail("invalid operation: int(%T)", v)
	case !whole:
		return int(f)
	}
	return i
}

func equal(a, b any) bool {
	if isNumber(a) && isNumber(b) {
		return ordered("==", a, b) == 0 && !isNaN(a, b)
	}
	switch x := a.(type) {
	case time.Time:
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	case []any, []byte:
		all, _ := elements(a)
		others, ok := elements(b)
		return ok && slices.EqualFunc(all, others, equal)
	}
	return reflect.DeepEqual(a, b)
}

// ordered compares two numbers, texts, times or durations. A result for NaN has no meaning.
func ordered(op string, a, b any) int {
	i, f, whole, ok := number(a)
	j, g, whole2, ok2 := number(b)
	switch {
	case ok && ok2 && whole && whole2:
		return cmp.Compare(i, j)
	case ok && ok2 && math.IsNaN(f):
		return 1
	case ok && ok2:
		return cmp.Compare(f, g)
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return cmp.Compare(x, y)
		}
	}
	fail("invalid operation: %T %s %T", a, op, b)
	return 0
}

// onNumbers computes an operation on two numbers: on integers if both are, otherwise on floats.
func onNumbers(a, b any, whole func(i, j int) int, float func(f, g float64) float64) (any, bool) {
	i, f, isWhole, ok := number(a)
	j, g, isWhole2, ok2 := number(b)
	switch {
	case !ok || !ok2:
		return nil, false
	case isWhole && isWhole2:
		return whole(i, j), true
	}
	return float(f, g), true
}

func signed(op string, v any) any {
	i, f, whole, ok := number(v)
	switch {
	case !ok:
		fail("invalid operation: %s %T", op, v)
	case op == "+":
		return v
	case whole:
		return -i
	}
	return -f
}

func add(f *frame, a, b any) any {
	if sum, ok := onNumbers(a, b, func(i, j int) int { return i + j }, func(x, y float64) float64 { return x + y }); ok {
		return sum
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			f.use((len(x) + len(y)) / textsPerUnit)
			return x + y
		}
	case time.Time:
		if y, ok := b.(time.Duration); ok {
			return x.Add(y)
		}
	case time.Duration:
		switch y := b.(type) {
		case time.Duration:
			return x + y
		case time.Time:
			return y.Add(x)
		}
	}
	fail("invalid operation: %T + %T", a, b)
	return nil
}

func subtract(a, b any) any {
	if difference, ok := onNumbers(a, b, func(i, j int) int { return i - j }, func(x, y float64) float64 { return x - y }); ok {
		return difference
	}
	switch x := a.(type) {
	case time.Time:
		switch y := b.(type) {
		case time.Time:
			return x.Sub(y)
		case time.Duration:
			return x.Add(-y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return x - y
		}
	}
	fail("invalid operation: %T - %T", a, b)
	return nil
}

func multiply(a, b any) any {
	x, isDuration := a.(time.Duration)
	y, isDuration2 := b.(time.Duration)
	if product, ok := onNumbers(a, b, func(i, j int) int { return i * j }, func(f, g float64) float64 { return f * g }); ok {
		return product
	}
	switch {
	case isDuration && isDuration2:
		return x * y //nolint:durationcheck // as in expr-lang.org's module
	case isDuration && isNumber(b):
		return times(x, b)
	case isDuration2 && isNumber(a):
		return times(y, a)
	}
	fail("invalid operation: %T * %T", a, b)
	return nil
}

func times(d time.Duration, n any) time.Duration {
	i, f, whole, _ := number(n)
	if whole {
		return d * time.Duration(i)
	}
	return time.Duration(float64(d) * f)
}

func divide(a, b any) any {
	_, f, _, ok := number(a)
	_, g, _, ok2 := number(b)
	if !ok || !ok2 {
		fail("invalid operation: %T / %T", a, b)
	}
	return f / g
}

func modulo(a, b any) any {
	i, _, whole, _ := number(a)
	j, _, whole2, _ := number(b)
	switch {
	case !whole || !whole2:
		fail("invalid operation: %T %% %T", a, b)
	case j == 0:
		fail("integer divide by zero")
	}
	return i % j
}

func power(a, b any) any {
	_, f, _, ok := number(a)
	_, g, _, ok2 := number(b)
	if !ok || !ok2 {
		fail("invalid operation: %T ** %T", a, b)
	}
	return math.Pow(f, g)
}

func span(f *frame, a, b any) any {
	low, high := integerOf(a), integerOf(b)
	if low > high {
		return []any{}
	}
	n := high - low + 1
	f.use(n)
	made := make([]any, n)
	for i := range made {
		made[i] = low + i
	}
	return made
}

func isIn(v, collection any) bool {
	switch c := collection.(type) {
	case nil:
		return false
	case []any:
		return slices.ContainsFunc(c, func(e any) bool { return equal(e, v) })
	case []byte:
		return slices.ContainsFunc(c, func(b byte) bool { return equal(int(b), v) })
	case map[string]any, map[any]any:
		_, ok := lookUp(c, v)
		return ok
	}
	fail(`operator "in" not defined on %T`, collection)
	return false
}

// lookUp returns the value of a key of a map.
func lookUp(m, key any) (any, bool) {
	switch m := m.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			fail("cannot use %T as a map key", key)
		}
		v, ok := m[name]
		return v, ok
	case map[any]any:
		v, ok := m[hashable(key)]
		return v, ok
	}
	return nil, false
}

func hashable(key any) any {
	if key != nil && !reflect.TypeOf(key).Comparable() {
		fail("cannot use %T as a map key", key)
	}
	return key
}

// entries returns the keys of a map and their values, in the order of the keys as texts.
func entries(m any) (keys, values []any) {
	switch m := m.(type) {
	case map[string]any:
		for k := range m {
			keys = append(keys, k)
		}
	case map[any]any:
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		v, _ := lookUp(m, k)
		values = append(values, v)
	}
	return keys, values
}

// elements returns the elements of a list.
func elements(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []byte:
		all := make([]any, len(v))
		for i, b := range v {
			all[i] = int(b)
		}
		return all, true
	}
	return nil, false
}
