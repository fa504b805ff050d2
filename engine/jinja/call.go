package jinja

import (
	"slices"
	"strings"

	"github.com/ingot-run/ingot/internal/ordered"
)

type args struct {
	pos   []Value
	named []named
}

type named struct {
	name  string
	value Value
}

func (a *argExprs) eval(r *render, f *frame) args {
	var out args
	if len(a.pos) > 0 {
		out.pos = make([]Value, len(a.pos))
		for i, e := range a.pos {
			out.pos[i] = e.eval(r, f)
		}
	}
	for i, e := range a.named {
		out.named = append(out.named, named{a.names[i], e.eval(r, f)})
	}
	if a.star != nil {
		items := r.items(a.star.eval(r, f))
		r.list(len(items))
		out.pos = append(out.pos, items...)
	}
	if a.starNamed != nil {
		out.addAll(r, a.starNamed.eval(r, f))
	}
	return out
}

func (a *args) addAll(r *render, v Value) {
	o, ok := v.(*ordered.Object)
	if !ok {
		fail("the argument after ** must be a dictionary, not a value of type '%s'", typeName(v))
	}
	r.list(o.Len() + o.Len()*len(a.named))
	given := len(a.named)
	for key, value := range entries(o) {
		name := needText(key)
		if slices.ContainsFunc(a.named[:given], func(n named) bool { return n.name == name }) {
			fail("the argument '%s' is given twice", name)
		}
		a.named = append(a.named, named{name, value})
	}
}

// take removes the argument with the given name and returns its value. If there is no such
// argument, it returns the marker missing.
func (a *args) take(name string) Value {
	for i, n := range a.named {
		if n.name == name {
			a.named = slices.Delete(a.named, i, i+1)
			return n.value
		}
	}
	return missing
}

// or returns the argument at position i or, if it was not given, the value of the parameter absent.
func (a *args) or(i int, absent Value) Value {
	if i >= len(a.pos) || a.pos[i] == missing {
		return absent
	}
	return a.pos[i]
}

// integer returns the argument at position i as an integer, or absent if it was not given.
func (a *args) integer(i int, absent int64) int64 {
	v := a.or(i, absent)
	defined(v)
	n, ok := integer(v)
	if !ok {
		fail("found a value of type '%s' where a 64-bit integer is needed", typeName(v))
	}
	return n
}

func (a *args) text(i int) string {
	v := a.or(i, "")
	defined(v)
	return needText(v)
}

func needText(v Value) string {
	s, ok := text(v)
	if !ok {
		fail("found a value of type '%s' where a string is needed", typeName(v))
	}
	return s
}

// builtin is a filter, a test, a method or a global function, with its signature in Python. The
// parameter self of fn is the value to which the builtin is applied; nil for a global function. The
// parameter a of fn has the arguments in the order of params.
type builtin struct {
	params         []string
	required       int  // number of params without a default, which come first
	positionalOnly bool // no argument can be given by name
	variadic       bool // fn receives the arguments unchanged
	marked         bool // can be applied to markup
	fn             func(r *render, self Value, a args) Value
}

// def makes a builtin. The signature lists the names of the parameters. A ? marks a parameter with
// a default. A / at the end means that no argument can be given by name. The signature * accepts
// any arguments.
func def(signature string, fn func(r *render, self Value, a args) Value) *builtin {
	b := &builtin{fn: fn}
	for _, word := range strings.Fields(signature) {
		switch word {
		case "*":
			b.variadic = true
		case "/":
			b.positionalOnly = true
		default:
			name, optional := strings.CutSuffix(word, "?")
			b.params = append(b.params, name)
			if !optional {
				b.required++
			}
		}
	}
	return b
}

func (b *builtin) call(r *render, name string, self Value, a args) Value {
	if s, ok := text(self); ok {
		r.spend(len(s))
	}
	if is[markup](self) && !b.marked {
		failMarked("applying the filter '" + name + "' to")
	}
	if !b.variadic && (len(a.named) > 0 || len(a.pos) < b.required || len(a.pos) > len(b.params)) {
		a = b.arrange(name, a)
	}
	return b.fn(r, self, a)
}

func (b *builtin) arrange(name string, a args) args {
	if len(a.pos) > len(b.params) {
		fail("%s: takes at most %d arguments, not %d", name, len(b.params), len(a.pos))
	}
	pos := make([]Value, len(b.params))
	for i := range pos {
		pos[i] = missing
	}
	copy(pos, a.pos)
	for _, n := range a.named {
		i := slices.Index(b.params, n.name)
		if i < 0 || b.positionalOnly {
			fail("%s: there is no named argument '%s'", name, n.name)
		}
		if pos[i] != missing {
			fail("%s: the argument '%s' is given twice", name, n.name)
		}
		pos[i] = n.value
	}
	for i := range b.required {
		if pos[i] == missing {
			fail("%s: the argument '%s' is missing", name, b.params[i])
		}
	}
	return args{pos: pos}
}

type function struct {
	name string
	fn   func(r *render, a args) Value
}

func (b *builtin) method(name string, self Value) *function {
	return &function{name, func(r *render, a args) Value { return b.call(r, name, self, a) }}
}

func (r *render) call(fn Value, a args) Value {
	defined(fn)
	switch fn := fn.(type) {
	case *function:
		return fn.fn(r, a)
	case *macro:
		return fn.call(r, a)
	}
	fail("a value of type '%s' cannot be called", typeName(fn))
	return nil
}

type macro struct {
	def   *macroDef
	outer *frame
}

func (m *macro) call(r *render, a args) string {
	if r.calls >= maxCalls {
		failWith(errCalls)
	}
	r.calls++
	d := m.def
	f := d.scope.enter(r, m.outer)
	absent := make([]bool, len(d.params))
	for i, p := range d.params {
		var v Value
		if i < len(a.pos) {
			v = a.pos[i]
		} else {
			v = a.take(p.name)
		}
		if v == missing {
			absent[i] = true
			v = &undefined{name: p.name}
		}
		p.ref.set(f, v)
	}
	if len(a.named) > 0 {
		fail("macro '%s': the named argument '%s' is given twice or is not a parameter", d.name, a.named[0].name)
	}
	if len(a.pos) > len(d.params) {
		fail("macro '%s' takes at most %d argument(s)", d.name, len(d.params))
	}
	for i, p := range d.params {
		if !absent[i] {
			continue
		}
		if k := i - (len(d.params) - len(d.defaults)); k >= 0 {
			p.ref.set(f, d.defaults[k].eval(r, f))
		} else {
			p.ref.set(f, &undefined{hint: "parameter '" + p.name + "' was not provided", strict: r.t.strict})
		}
	}
	s, _ := r.capture(d.body, f)
	r.calls--
	return s
}
