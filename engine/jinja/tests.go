package jinja

import (
	"math/big"

	"github.com/ingot-run/ingot/ordered"
)

// tests are Jinja's, all of them.
var tests map[string]*builtin

func init() {
	tests = map[string]*builtin{
		"defined":   test(func(v Value) bool { _, ok := v.(*undefined); return !ok }),
		"undefined": test(func(v Value) bool { _, ok := v.(*undefined); return ok }),
		"none":      test(func(v Value) bool { return v == nil }),
		"boolean":   test(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":      test(func(v Value) bool { b, ok := v.(bool); return ok && b }),
		"false":     test(func(v Value) bool { b, ok := v.(bool); return ok && !b }),
		"integer":   test(isInteger),
		"float":     test(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":    test(func(v Value) bool { _, ok := float(v); return ok }),
		"string":    test(func(v Value) bool { _, ok := text(v); return ok }),
		"mapping":   test(func(v Value) bool { _, ok := v.(*ordered.Object); return ok }),
		"sequence":  test(isSequence),
		"iterable":  test(isIterable),
		"callable":  test(callable),
		"escaped":   test(isMarkup),
		"filter":    exists(func(name string) bool { return filters[name] != nil }),
		"test":      exists(func(name string) bool { return tests[name] != nil }),
		"lower":     textTest(func(s string) bool { return hasCase(s, isLowerCase) }),
		"upper":     textTest(func(s string) bool { return hasCase(s, isUpperCase) }),

		"odd":         def("", remainder(2, 1)),
		"even":        def("", remainder(2, 0)),
		"divisibleby": def("num", func(r *render, v Value, a args) (Value, error) { return r.leaves(v, a.pos[0], 0) }),
		"sameas":      def("other", func(_ *render, v Value, a args) (Value, error) { return identical(v, a.pos[0]), nil }),
		"in":          def("seq", func(r *render, v Value, a args) (Value, error) { return r.contains(a.pos[0], v) }),
	}
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
	} {
		for _, name := range names {
			tests[name] = def("other /", func(r *render, v Value, a args) (Value, error) {
				return r.compare(op, v, a.pos[0])
			})
		}
	}
}

func test(holds func(Value) bool) *builtin {
	return def("", func(_ *render, v Value, _ args) (Value, error) { return holds(v), nil })
}

// exists tests whether there is something of that name.
func exists(known func(name string) bool) *builtin {
	return def("", func(r *render, v Value, _ args) (Value, error) {
		name, ok := text(v)
		return ok && known(name), nil
	})
}

func textTest(holds func(string) bool) *builtin {
	return def("", func(r *render, v Value, _ args) (Value, error) {
		s, err := r.str(v)
		return holds(s), err
	})
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// isSequence says whether a value has a length and can be subscribed, which in Jinja dictionaries and undefined values
// do too.
func isSequence(v Value) bool {
	if _, ok := text(v); ok {
		return true
	}
	if _, ok := elements(v); ok {
		return true
	}
	switch v.(type) {
	case *ordered.Object, *span, *undefined:
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

func remainder(divisor, want int64) func(*render, Value, args) (Value, error) {
	return func(r *render, v Value, _ args) (Value, error) { return r.leaves(v, divisor, want) }
}

// leaves says whether v % divisor is want.
func (r *render) leaves(v, divisor Value, want int64) (Value, error) {
	got, err := r.arithmetic("%", v, divisor)
	if err != nil {
		return nil, err
	}
	return r.equal(got, want)
}
