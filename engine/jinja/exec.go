package jinja

import (
	"errors"
	"fmt"
)

func (s *textStmt) exec(r *render, _ *frame) (flow, error) { return flowNext, r.write(s.text) }

func (s *printStmt) exec(r *render, f *frame) (flow, error) {
	v, err := s.value.eval(r, f)
	if err == nil {
		err = r.print(v)
	}
	if err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

// print writes a value as Python's str does.
func (r *render) print(v Value) error {
	if s, ok := v.(string); ok {
		return r.write(s)
	}
	s, err := r.str(v)
	if err != nil {
		return err
	}
	return r.write(s)
}

func (s *doStmt) exec(r *render, f *frame) (flow, error) {
	if _, err := s.value.eval(r, f); err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

func (s *ifStmt) exec(r *render, f *frame) (flow, error) {
	branch := s
	for i := 0; ; i++ {
		v, err := branch.test.eval(r, f)
		if err != nil {
			return flowNext, errAt(int(branch.at), err)
		}
		if truth(v) {
			return r.run(branch.body, f)
		}
		if i == len(s.elifs) {
			return r.run(s.other, f)
		}
		branch = s.elifs[i]
	}
}

func (s *setStmt) exec(r *render, f *frame) (flow, error) {
	err := checkNamespaces(r, f, s.target)
	var v Value
	if err == nil {
		v, err = s.value.eval(r, f)
	}
	if err == nil {
		err = assign(r, f, s.target, v)
	}
	if err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

var errNotNamespace = errors.New("cannot assign attribute on non-namespace object")

// checkNamespaces fails if a target sets an attribute of anything but a namespace.
func checkNamespaces(r *render, f *frame, target expr) error {
	switch t := target.(type) {
	case *attrTarget:
		if _, ok := t.object.ref.get(r, f).(*namespace); !ok {
			return errNotNamespace
		}
	case *tupleExpr:
		for _, item := range t.items {
			if err := checkNamespaces(r, f, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// assign gives a target its value, and the items of a tuple theirs.
func assign(r *render, f *frame, target expr, v Value) error {
	switch t := target.(type) {
	case *nameExpr:
		t.ref.set(f, v)
	case *attrTarget:
		ns, ok := t.object.ref.get(r, f).(*namespace)
		if !ok {
			return errNotNamespace
		}
		ns.attrs.Set(t.name, v)
	case *tupleExpr:
		items, err := r.items(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.items) {
			return fmt.Errorf("cannot unpack %d values into %d names", len(items), len(t.items))
		}
		for i, item := range t.items {
			if err := assign(r, f, item, items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *setBlockStmt) exec(r *render, f *frame) (flow, error) {
	v, fl, err := r.filtered(s.body, s.filter, s.scope.enter(r, f))
	if fl != flowNext || err != nil {
		return fl, err
	}
	if err := assign(r, f, s.target, v); err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

// filtered is the text of a body after its filter, which may be nil.
func (r *render) filtered(body []stmt, filter *filterExpr, f *frame) (Value, flow, error) {
	s, fl, err := r.capture(body, f)
	if fl != flowNext || err != nil || filter == nil {
		return s, fl, err
	}
	v, err := filter.apply(r, f, s)
	return v, flowNext, err
}

func (s *filterStmt) exec(r *render, f *frame) (flow, error) {
	v, fl, err := r.filtered(s.body, s.filter, s.scope.enter(r, f))
	if fl != flowNext || err != nil {
		return fl, err
	}
	if err := r.writeText(v); err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

// writeText writes what a filter or call block has made, which must be a string.
func (r *render) writeText(v Value) error {
	s, ok := text(v)
	if !ok {
		return fmt.Errorf("the block makes a value of type '%s' where a string is needed", typeName(v))
	}
	return r.write(s)
}

func (s *withStmt) exec(r *render, f *frame) (flow, error) {
	inner := s.scope.enter(r, f)
	for i, target := range s.targets {
		v, err := s.values[i].eval(r, f)
		if err == nil {
			err = assign(r, inner, target, v)
		}
		if err != nil {
			return flowNext, errAt(int(s.at), err)
		}
	}
	return r.run(s.body, inner)
}

func (s *loopControl) exec(*render, *frame) (flow, error) { return s.flow, nil }

func (s *macroStmt) exec(_ *render, f *frame) (flow, error) {
	s.target.ref.set(f, &macro{s.def, f})
	return flowNext, nil
}

func (s *callStmt) exec(r *render, f *frame) (flow, error) {
	caller := &macro{s.def, f}
	var v Value
	var err error
	if s.call == nil {
		v, err = caller.call(r, args{})
	} else {
		v, err = s.call.call(r, f, caller)
	}
	if err == nil {
		err = r.writeText(v)
	}
	if err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}
