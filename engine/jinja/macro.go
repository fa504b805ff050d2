package jinja

import (
	"fmt"

	"github.com/ingot-run/ingot/ordered"
)

// macro is a macro, or the body of a call block, with the frame that it was defined in.
type macro struct {
	def   *macroDef
	outer *frame
}

func (m *macro) call(r *render, a args) (Value, error) {
	if err := r.enterCall(); err != nil {
		return nil, err
	}
	defer r.leaveCall()
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
	if err := m.special(a, f); err != nil {
		return nil, err
	}
	for i, p := range d.params {
		if !absent[i] {
			continue
		}
		k := i - (len(d.params) - len(d.defaults))
		if k < 0 {
			p.ref.set(f, &undefined{hint: fmt.Sprintf("parameter '%s' was not provided", p.name)})
			continue
		}
		v, err := d.defaults[k].eval(r, f)
		if err != nil {
			return nil, err
		}
		p.ref.set(f, v)
	}
	s, _, err := r.capture(d.body, f)
	return s, err
}

// special sets caller, varargs and kwargs, and refuses arguments that nothing takes.
func (m *macro) special(a args, f *frame) error {
	d := m.def
	if d.caller != nil {
		v := a.take("caller")
		if v == missing || v == nil {
			v = &undefined{hint: "No caller defined"}
		}
		d.caller.ref.set(f, v)
	}
	if d.kwargs != nil {
		o := ordered.NewObject()
		for _, n := range a.named {
			o.Set(n.name, n.value)
		}
		d.kwargs.ref.set(f, o)
	} else if len(a.named) > 0 {
		return fmt.Errorf("macro '%s' takes no keyword argument '%s'", d.name, a.named[0].name)
	}
	if d.varargs != nil {
		d.varargs.ref.set(f, tuple(a.pos[min(len(d.params), len(a.pos)):]))
	} else if len(a.pos) > len(d.params) {
		return fmt.Errorf("macro '%s' takes not more than %d argument(s)", d.name, len(d.params))
	}
	return nil
}

// attr is an attribute that Jinja documents for macros.
func (m *macro) attr(name string) (Value, bool) {
	d := m.def
	switch name {
	case "name":
		if d.name == "" {
			return nil, true
		}
		return d.name, true
	case "arguments":
		out := make(tuple, len(d.params))
		for i, p := range d.params {
			out[i] = p.name
		}
		return out, true
	case "catch_kwargs":
		return d.kwargs != nil, true
	case "catch_varargs":
		return d.varargs != nil, true
	case "caller":
		return d.caller != nil, true
	}
	return nil, false
}
