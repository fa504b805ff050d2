package jinja

import (
	"math/big"

	"github.com/ingot-run/ingot/internal/ordered"
)

// tests has all tests by name.
var tests map[string]*builtin

func init() {
	tests = map[string]*builtin{
		"defined":   test(func(v Value) bool { return !is[*undefined](v) }),
		"undefined": test(is[*undefined]),
		"none":      test(func(v Value) bool { return v == nil }),
		"boolean":   test(is[bool]),
		"true":      test(func(v Value) bool { b, ok := v.(bool); return ok && b }),
		"false":     test(func(v Value) bool { b, ok := v.(bool); return ok && !b }),
		"integer":   test(isInteger),
		"float":     test(is[float64]),
		"number":    test(func(v Value) bool { _, ok := float(v); return ok }),
		"string":    test(func(v Value) bool { _, ok := text(v); return ok }),
		"mapping":   test(is[*ordered.Object]),
		"sequence":  test(isSequence),
		"iterable":  test(isIterable),
		"lower":     textTest(func(s string) bool { return hasCase(s, isLowerCase) }),
		"upper":     textTest(func(s string) bool { return hasCase(s, isUpperCase) }),

		"odd":         def("", func(r *render, v Value, _ args) Value { return r.leaves(v, int64(2), 1) }),
		"even":        def("", func(r *render, v Value, _ args) Value { return r.leaves(v, int64(2), 0) }),
		"divisibleby": def("num", func(r *render, v Value, a args) Value { return r.leaves(v, a.pos[0], 0) }),
		"in":          def("seq", func(r *render, v Value, a args) Value { return r.contains(a.pos[0], v) }),
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"},
		">": {"gt", "greaterthan"}, ">=": {"ge"},
		"<": {"lt", "lessthan"}, "<=": {"le"},
	} {
		for _, name := range append(names, op) { // with these, filters such as select can use operators as tests
			tests[name] = def("other /", func(r *render, v Value, a args) Value { return r.compare(op, v, a.pos[0]) })
		}
	}
	for _, b := range tests {
		b.marked = true
	}
}

func test(is func(Value) bool) *builtin {
	return def("", func(_ *render, v Value, _ args) Value { return is(v) })
}

func textTest(is func(string) bool) *builtin {
	return def("", func(r *render, v Value, _ args) Value { return is(r.str(v)) })
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// isSequence reports whether the test sequence is true for a value: it has a length and can be subscripted. As in Jinja, this includes
// dictionaries and undefined values.
func isSequence(v Value) bool {
	switch v.(type) {
	case string, markup, []Value, tuple, *ordered.Object, *span, *undefined:
		return true
	}
	return false
}

func isIterable(v Value) bool {
	switch v.(type) {
	case *view, *iterator, *loopContext:
		return true
	}
	return isSequence(v)
}

// leaves reports whether the remainder of v divided by divisor equals want.
func (r *render) leaves(v, divisor Value, want int64) bool {
	return r.equal(r.arithmetic("%", v, divisor), want)
}
