package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// filters are Jinja's, less those that no prompt can want: urlize, xmlattr, pprint, filesizeformat, wordwrap and random.
var filters map[string]*builtin

func init() {
	filters = map[string]*builtin{
		"tojson": def("ensure_ascii? indent? separators? sort_keys?", filterToJSON),

		// text
		"upper":      textFilter(upper),
		"lower":      textFilter(lower),
		"capitalize": textFilter(capitalize),
		"title":      textFilter(titleWords),
		"string":     textFilter(func(s string) string { return s }),
		"trim":       def("chars?", softMethod("strip")),
		"center":     def("width?", filterCenter),
		"replace":    def("old new count?", filterReplace),
		"join":       def("d? attribute?", filterJoin),
		"format":     def("*", filterFormat),
		"indent":     def("width? first? blank?", filterIndent),
		"truncate":   def("length? killwords? end? leeway?", filterTruncate),
		"wordcount":  def("", filterWordCount),
		"urlencode":  def("", filterURLEncode),
		"striptags":  def("", filterStripTags),
		"safe":       def("", filterSafe),
		"escape":     def("", func(r *render, v Value, _ args) (Value, error) { return r.escape(v) }),
		"forceescape": def("", func(r *render, v Value, _ args) (Value, error) {
			s, err := r.str(v)
			return escaped(s), err
		}),

		// numbers
		"abs":   def("", filterAbs),
		"int":   def("default? base?", filterInt),
		"float": def("default?", filterFloat),
		"round": def("precision? method?", filterRound),
		"sum":   def("attribute? start?", filterSum),

		// lists and dictionaries
		"length":   def("", filterLength),
		"list":     def("", filterList),
		"items":    def("", filterItems),
		"dictsort": def("case_sensitive? by? reverse?", filterDictSort),
		"first":    def("", filterFirst),
		"last":     def("", filterLast),
		"reverse":  def("", filterReverse),
		"sort":     def("reverse? case_sensitive? attribute?", filterSort),
		"unique":   def("case_sensitive? attribute?", filterUnique),
		"min":      def("case_sensitive? attribute?", extreme(func(r *render, a, b Value) (bool, error) { return r.less(a, b) })),
		"max":      def("case_sensitive? attribute?", extreme(func(r *render, a, b Value) (bool, error) { return r.less(b, a) })),
		"batch":    def("linecount fill_with?", filterBatch),
		"slice":    def("slices fill_with?", filterSlice),
		"groupby":  def("attribute default? case_sensitive?", filterGroupBy),
		"attr":     def("name", filterAttr),

		// of every element
		"map":        def("*", filterMap),
		"select":     def("*", selecting(true, false)),
		"reject":     def("*", selecting(false, false)),
		"selectattr": def("*", selecting(true, true)),
		"rejectattr": def("*", selecting(false, true)),

		"default": def("default_value? boolean?", filterDefault),
	}
	for short, long := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[short] = filters[long]
	}
}

func filterDefault(_ *render, v Value, a args) (Value, error) {
	if _, ok := v.(*undefined); ok || truth(a.or(1, false)) && !truth(v) {
		return a.or(0, ""), nil
	}
	return v, nil
}

func filterAttr(_ *render, v Value, a args) (Value, error) {
	name, err := a.text(0, "")
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	got, ok, err := ownAttr(v, name)
	if !ok && err == nil {
		got = &undefined{name: name, owner: ownerName(v)}
	}
	return got, err
}

func filterLength(r *render, v Value, _ args) (Value, error) {
	n, err := r.length(v)
	return int64(n), err
}

// getter looks an attribute up by a path such as "function.name" or "0.id".
type getter struct {
	path    []Value
	fold    bool  // strings that come out are in lower case
	instead Value // for an undefined value, unless nil
}

func newGetter(attribute Value, caseSensitive bool) getter {
	g := getter{fold: !caseSensitive}
	if name, ok := text(attribute); ok {
		for part := range strings.SplitSeq(name, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && every(part, isDecimal) {
				g.path = append(g.path, n)
			} else {
				g.path = append(g.path, part)
			}
		}
	} else if attribute != nil {
		g.path = []Value{attribute}
	}
	return g
}

func (g getter) get(r *render, v Value) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	for _, key := range g.path {
		var err error
		if v, err = r.getItem(v, key); err != nil {
			return nil, err
		}
		if _, ok := v.(*undefined); ok && g.instead != nil {
			v = g.instead
		}
	}
	if g.fold {
		if s, ok := text(v); ok {
			return sameMarkup(v, lower(s)), r.spend(len(s))
		}
	}
	return v, nil
}

// generator is the value of a filter that yields elements, as a generator function in Python does: nothing of it runs
// before the first element is asked for.
func generator(start func() (func() (Value, bool, error), error)) *iterator {
	var next func() (Value, bool, error)
	return &iterator{cursor{next: func() (Value, bool, error) {
		if next == nil {
			var err error
			if next, err = start(); err != nil {
				return nil, false, err
			}
		}
		return next()
	}}}
}

// over starts a generator over the elements of v, where each gives what keep and the value say.
func (r *render) over(v Value, each func(Value) (out Value, keep bool, err error)) func() (Value, bool, error) {
	it, err := r.iterate(v)
	return func() (Value, bool, error) {
		for err == nil {
			item, ok, stepErr := it.step()
			if stepErr != nil || !ok {
				return nil, false, stepErr
			}
			if err := r.step(); err != nil {
				return nil, false, err
			}
			out, keep, eachErr := each(item)
			if eachErr != nil || keep {
				return out, eachErr == nil, eachErr
			}
		}
		return nil, false, err
	}
}

// filterMap applies a filter to every element, or looks an attribute of it up.
func filterMap(r *render, v Value, a args) (Value, error) {
	return generator(func() (func() (Value, bool, error), error) {
		if !truth(v) {
			return nothing, nil
		}
		if len(a.pos) == 0 {
			g, err := attributeOf(a)
			return r.over(v, func(item Value) (Value, bool, error) {
				out, err := g.get(r, item)
				return out, true, err
			}), err
		}
		name, _ := text(a.pos[0])
		b := filters[name]
		if b == nil {
			return nil, fmt.Errorf("there is no filter named '%s'", name)
		}
		rest := args{a.pos[1:], a.named}
		return r.over(v, func(item Value) (Value, bool, error) {
			out, err := b.call(r, name, item, rest)
			return out, true, err
		}), nil
	}), nil
}

func nothing() (Value, bool, error) { return nil, false, nil }

// attributeOf reads map(attribute=..., default=...).
func attributeOf(a args) (getter, error) {
	g := getter{}
	found := false
	for _, n := range a.named {
		switch n.name {
		case "attribute":
			g.path, found = newGetter(n.value, true).path, true
		case "default":
			g.instead = n.value
		default:
			return g, fmt.Errorf("map: unexpected keyword argument '%s'", n.name)
		}
	}
	if !found {
		return g, errors.New("map requires a filter argument")
	}
	return g, nil
}

// selecting keeps the elements for which a test gives want. With attr, the first argument names the attribute to test.
// Without a test, the element or attribute itself is the condition.
func selecting(want, attr bool) func(*render, Value, args) (Value, error) {
	return func(r *render, v Value, a args) (Value, error) {
		return generator(func() (func() (Value, bool, error), error) {
			if !truth(v) {
				return nothing, nil
			}
			g, pos := getter{}, a.pos
			if attr {
				if len(pos) == 0 {
					return nil, errors.New("missing parameter for attribute name")
				}
				g, pos = newGetter(pos[0], true), pos[1:]
			}
			var test *builtin
			var name string
			rest := args{named: a.named}
			if len(pos) > 0 {
				name, _ = text(pos[0])
				if test = tests[name]; test == nil {
					return nil, fmt.Errorf("there is no test named '%s'", name)
				}
				rest.pos = pos[1:]
			}
			return r.over(v, func(item Value) (Value, bool, error) {
				result, err := g.get(r, item)
				if err == nil && test != nil {
					result, err = test.call(r, name, result, rest)
				}
				return item, truth(result) == want, err
			}), nil
		}), nil
	}
}
