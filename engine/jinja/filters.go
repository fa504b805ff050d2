package jinja

import (
	"strconv"
	"strings"
)

var filters map[string]*builtin

func init() {
	filters = map[string]*builtin{
		"default": def("default_value? boolean?", filterDefault),
		"length":  def("", func(r *render, v Value, _ args) Value { return int64(r.length(v)) }),
		"tojson":  def("ensure_ascii? indent? separators? sort_keys?", filterToJSON),

		// text: filters_text.go
		"upper":      mapped(upper),
		"lower":      mapped(lower),
		"capitalize": mapped(capitalize),
		"title":      mapped(titleWords),
		"string":     def("", filterString),
		"safe":       def("", func(r *render, v Value, _ args) Value { return markup(r.str(v)) }),
		"trim":       def("chars?", func(r *render, v Value, a args) Value { return strip(strings.TrimFunc)(r, r.str(v), a) }),
		"replace":    def("old new count?", filterReplace),
		"join":       def("d? attribute?", filterJoin),
		"format":     def("*", filterFormat),
		"indent":     def("width? first? blank?", filterIndent),

		// numbers: filters_number.go
		"abs":   def("", filterAbs),
		"int":   def("default?", filterInt),
		"float": def("default?", filterFloat),
		"round": def("precision?", filterRound),

		// lists and dictionaries: filters_list.go
		"list":     def("", filterList),
		"items":    def("", filterItems),
		"dictsort": def("case_sensitive? by? reverse?", filterDictSort),
		"first":    def("", filterFirst),
		"last":     def("", filterLast),
		"reverse":  def("", filterReverse),
		"sort":     def("reverse? case_sensitive? attribute?", filterSort),
		"unique":   def("case_sensitive? attribute?", filterUnique),

		// every element of a list
		"map":        def("*", filterMap),
		"select":     def("*", selecting(true, false)),
		"reject":     def("*", selecting(false, false)),
		"selectattr": def("*", selecting(true, true)),
		"rejectattr": def("*", selecting(false, true)),
	}
	for _, name := range []string{"default", "length", "tojson", "string", "safe"} {
		filters[name].marked = true
	}
	filters["d"], filters["count"] = filters["default"], filters["length"]
}

func filterDefault(_ *render, v Value, a args) Value {
	if is[*undefined](v) || truth(a.or(1, false)) && !truth(v) {
		return a.or(0, "")
	}
	return v
}

// getter looks up an attribute by a path such as "function.name" or "0.id".
type getter struct {
	path    []Value
	fold    bool  // convert results that are strings to lower case
	instead Value // replaces an undefined value; nil for no replacement
}

func newGetter(attribute Value, caseSensitive bool) getter {
	g := getter{fold: !caseSensitive}
	if name, ok := text(attribute); ok {
		for part := range strings.SplitSeq(name, ".") {
			if n, err := strconv.ParseUint(part, 10, 32); err == nil {
				g.path = append(g.path, int64(n))
			} else {
				g.path = append(g.path, part)
			}
		}
	} else if attribute != nil {
		g.path = []Value{attribute}
	}
	return g
}

func (g getter) get(r *render, v Value) Value {
	r.step()
	for _, key := range g.path {
		v = r.getItem(v, key)
		if is[*undefined](v) && g.instead != nil {
			v = g.instead
		}
	}
	if s, ok := v.(string); ok && g.fold {
		r.spend(len(s))
		return lower(s)
	}
	return v
}

// filterMap is the filter map, as in map("upper") or map(attribute="id"). It applies a filter to
// every element, or looks up an attribute of every element.
func filterMap(r *render, v Value, a args) Value {
	if !truth(v) {
		return &iterator{}
	}
	if len(a.pos) == 0 {
		attribute, found := Value(nil), false
		g := getter{}
		for _, n := range a.named {
			switch n.name {
			case "attribute":
				attribute, found = n.value, true
			case "default":
				g.instead = n.value
			default:
				fail("map: there is no argument named '%s'", n.name)
			}
		}
		if !found {
			fail("map: the name of a filter or the argument 'attribute' is missing")
		}
		g.path = newGetter(attribute, true).path
		return r.generator(v, func(item Value) (Value, bool) { return g.get(r, item), true })
	}
	name, _ := text(a.pos[0])
	b := filters[name]
	if b == nil {
		fail("there is no filter named '%s'", name)
	}
	rest := args{a.pos[1:], a.named}
	return r.generator(v, func(item Value) (Value, bool) { return b.call(r, name, item, rest), true })
}

// selecting returns a filter that keeps the elements for which the result of a test equals want. If
// attr is set, the filter's first argument names the attribute to test. If the filter is called
// without a test, the element or attribute itself is the condition.
func selecting(want, attr bool) func(*render, Value, args) Value {
	return func(r *render, v Value, a args) Value {
		if !truth(v) {
			return &iterator{}
		}
		g, pos := getter{}, a.pos
		if attr {
			if len(pos) == 0 {
				fail("selectattr and rejectattr: the first argument, the name of an attribute, is missing")
			}
			g, pos = newGetter(pos[0], true), pos[1:]
		}
		if len(pos) == 0 {
			return r.generator(v, func(item Value) (Value, bool) { return item, truth(g.get(r, item)) == want })
		}
		name, _ := text(pos[0])
		test := tests[name]
		if test == nil {
			fail("there is no test named '%s'", name)
		}
		rest := args{pos[1:], a.named}
		return r.generator(v, func(item Value) (Value, bool) {
			return item, truth(test.call(r, name, g.get(r, item), rest)) == want
		})
	}
}
