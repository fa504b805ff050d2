package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/ordered"
)

// args are the arguments of a call.
type args struct {
	pos   []Value
	named []named
}

type named struct {
	name  string
	value Value
}

func (a *argExprs) eval(r *render, f *frame) (args, error) {
	var out args
	if len(a.pos) > 0 {
		out.pos = make([]Value, len(a.pos))
		for i, e := range a.pos {
			v, err := e.eval(r, f)
			if err != nil {
				return out, err
			}
			out.pos[i] = v
		}
	}
	for i, e := range a.named {
		v, err := e.eval(r, f)
		if err != nil {
			return out, err
		}
		out.named = append(out.named, named{a.names[i], v})
	}
	if a.star != nil {
		v, err := a.star.eval(r, f)
		if err != nil {
			return out, err
		}
		items, err := r.items(v)
		if err != nil {
			return out, err
		}
		if err := r.list(len(items)); err != nil {
			return out, err
		}
		out.pos = append(out.pos, items...)
	}
	if a.starNamed != nil {
		v, err := a.starNamed.eval(r, f)
		if err != nil {
			return out, err
		}
		if err := out.addAll(r, v); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addAll adds the entries of a dictionary as named arguments.
func (a *args) addAll(r *render, v Value) error {
	o, ok := v.(*ordered.Object)
	if !ok {
		return fmt.Errorf("argument after ** must be a mapping, not %s", typeName(v))
	}
	if err := r.list(o.Len() + o.Len()*len(a.named)); err != nil {
		return err
	}
	given := len(a.named)
	for key, value := range entries(o) {
		name, ok := text(key)
		if !ok {
			return errors.New("keywords must be strings")
		}
		if slices.ContainsFunc(a.named[:given], func(n named) bool { return n.name == name }) {
			return fmt.Errorf("the argument '%s' is given twice", name)
		}
		a.named = append(a.named, named{name, value})
	}
	return nil
}

// take removes a named argument and returns it, or missing.
func (a *args) take(name string) Value {
	for i, n := range a.named {
		if n.name == name {
			a.named = slices.Delete(a.named, i, i+1)
			return n.value
		}
	}
	return missing
}

// or is the argument at a place, or def where it was not given.
func (a *args) or(i int, def Value) Value {
	if i >= len(a.pos) || a.pos[i] == missing {
		return def
	}
	return a.pos[i]
}

// integer is the argument at a place as an integer.
func (a *args) integer(i int, def int64) (int64, error) {
	v := a.or(i, missing)
	if v == missing {
		return def, nil
	}
	if u, ok := v.(*undefined); ok {
		return 0, u.err()
	}
	n, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("'%s' object cannot be interpreted as an integer", typeName(v))
	}
	return n, nil
}

// text is the argument at a place as a string.
func (a *args) text(i int, def string) (string, error) {
	v := a.or(i, missing)
	if v == missing {
		return def, nil
	}
	if u, ok := v.(*undefined); ok {
		return "", u.err()
	}
	s, ok := text(v)
	if !ok {
		return "", fmt.Errorf("a string is needed, not '%s'", typeName(v))
	}
	return s, nil
}

// builtin is a filter, a test, a method or a global function, with its signature in Python. It gets the value that it is
// applied to, nil for a global function, and its arguments in the order of the parameters.
type builtin struct {
	params         []string
	required       int
	positionalOnly bool
	variadic       bool // takes the arguments as they come
	fn             func(r *render, self Value, a args) (Value, error)
}

// def makes a builtin. The signature lists the parameters' names; a ? marks those that have a default, a / at the end
// says that none can be given by name, and * alone takes any arguments.
func def(signature string, fn func(r *render, self Value, a args) (Value, error)) *builtin {
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

func (b *builtin) call(r *render, name string, self Value, a args) (Value, error) {
	if s, ok := text(self); ok {
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
	}
	if !b.variadic && (len(a.named) > 0 || len(a.pos) < b.required || len(a.pos) > len(b.params)) {
		var err error
		if a, err = b.arrange(a); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return b.fn(r, self, a)
}

// arrange puts named arguments in their places.
func (b *builtin) arrange(a args) (args, error) {
	if len(a.pos) > len(b.params) {
		return a, fmt.Errorf("takes %d arguments, not %d", len(b.params), len(a.pos))
	}
	pos := make([]Value, len(b.params))
	for i := range pos {
		pos[i] = missing
	}
	copy(pos, a.pos)
	for _, n := range a.named {
		i := slices.Index(b.params, n.name)
		switch {
		case i < 0 || b.positionalOnly:
			return a, fmt.Errorf("there is no argument named '%s'", n.name)
		case pos[i] != missing:
			return a, fmt.Errorf("the argument '%s' is given twice", n.name)
		}
		pos[i] = n.value
	}
	for i := range b.required {
		if pos[i] == missing {
			return a, fmt.Errorf("the argument '%s' is missing", b.params[i])
		}
	}
	return args{pos: pos}, nil
}

// function is a global function or a method with its object, as a value.
type function struct {
	name string
	fn   func(r *render, a args) (Value, error)
}

// method is a builtin as a value, applied to self.
func (b *builtin) method(name string, self Value) *function {
	return &function{name, func(r *render, a args) (Value, error) { return b.call(r, name, self, a) }}
}

func (r *render) call(fn Value, a args) (Value, error) {
	switch fn := fn.(type) {
	case *function:
		return fn.fn(r, a)
	case *macro:
		return fn.call(r, a)
	case *loopContext:
		return fn.call(r, a)
	case *undefined:
		return nil, fn.err()
	}
	return nil, fmt.Errorf("'%s' object is not callable", typeName(fn))
}

func callable(v Value) bool {
	switch v.(type) {
	case *function, *macro, *loopContext, *undefined:
		return true
	}
	return false
}

func (e *callExpr) eval(r *render, f *frame) (Value, error) { return e.call(r, f, nil) }

// call evaluates the call. A call block passes its body as the argument caller.
func (e *callExpr) call(r *render, f *frame, caller *macro) (Value, error) {
	v, err := e.invoke(r, f, caller)
	if err != nil {
		return nil, errAt(int(e.at), err)
	}
	return v, nil
}

func (e *callExpr) invoke(r *render, f *frame, caller *macro) (Value, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	var fn, self Value
	var m *builtin
	var err error
	attr, isAttr := e.fn.(*attrExpr)
	if isAttr {
		if self, err = attr.object.eval(r, f); err == nil {
			if m = methodOf(self, attr.name); m == nil {
				fn, err = getAttr(self, attr.name)
			}
		}
	} else {
		fn, err = e.fn.eval(r, f)
	}
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(r, f)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		a.named = append(a.named, named{"caller", caller})
	}
	if m != nil {
		return m.call(r, attr.name, self, a)
	}
	return r.call(fn, a)
}

func (r *render) enterCall() error {
	if r.calls >= maxCalls {
		return errCalls
	}
	r.calls++
	return nil
}

func (r *render) leaveCall() { r.calls-- }
