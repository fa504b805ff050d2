package jinja

import (
	"slices"

	"github.com/ingot-run/ingot/internal/ordered"
)

var tests map[string]*builtin

func init() {
	tests = map[string]*builtin{
		"defined":   test(func(v Value) bool { return !is[*undefined](v) }),
		"undefined": test(is[*undefined]),
		"none":      test(func(v Value) bool { return v == nil }),
		"boolean":   test(is[bool]),
		"true":      test(func(v Value) bool { b, ok := v.(bool); return ok && b }),
		"false":     test(func(v Value) bool { b, ok := v.(bool); return ok && !b }),
		"integer":   ofType("int"),
		"float":     test(is[float64]),
		"number":    test(func(v Value) bool { _, ok := float(v); return ok }),
		"string":    test(func(v Value) bool { _, ok := text(v); return ok }),
		"mapping":   test(is[*ordered.Object]),
		"sequence":  ofType(sequences...),
		"iterable":  ofType(iterables...),
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

// sequences names the types of values that have a length and can be subscripted. As in Jinja,
// dictionaries and undefined values belong to them.
var (
	sequences = []string{"str", "Markup", "list", "tuple", "dict", "range", "Undefined"}
	iterables = append([]string{"dict_keys", "dict_values", "dict_items", "generator", "LoopContext"}, sequences...)
)

func ofType(names ...string) *builtin {
	return test(func(v Value) bool { return slices.Contains(names, typeName(v)) })
}

func test(is func(Value) bool) *builtin {
	return def("", func(_ *render, v Value, _ args) Value { return is(v) })
}

func textTest(is func(string) bool) *builtin {
	return def("/", func(r *render, v Value, _ args) Value { return is(r.str(v)) })
}

func (r *render) leaves(v, divisor Value, want int64) bool {
	return r.equal(r.arithmetic("%", v, divisor), want)
}
