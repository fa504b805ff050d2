package jinja

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// binder gives every name of a template its place and every filter and test its function.
type binder struct {
	t       *Template
	context map[string]int // place of a variable among t.names
}

func (t *Template) bind() error {
	b := binder{t: t, context: map[string]int{}}
	s := newSymbols(nil, &routine{})
	visitAll(s, t.body)
	t.root = b.scope(s, true)
	return b.stmts(t.body, s, false)
}

// contextSlot is the place of a name among the context variables that the template reads.
func (b *binder) contextSlot(name string) int {
	i, ok := b.context[name]
	if !ok {
		i = len(b.t.names)
		b.context[name] = i
		b.t.names = append(b.t.names, name)
		b.t.absent = append(b.t.absent, &undefined{name: name})
	}
	return i
}

// scope gives the variables of s their slots. The scopes inside are bound after it, since they refer to them.
func (b *binder) scope(s *symbols, ownFrame bool) *scope {
	out := &scope{}
	if ownFrame {
		out.routine = s.routine
	}
	for _, name := range slices.Sorted(maps.Keys(s.made)) {
		v := s.made[name]
		l, ok := s.loads[v]
		if !ok {
			continue
		}
		if l.kind == loadContext && !s.stores[name] {
			v.context, v.slot = true, b.contextSlot(name)
			continue
		}
		v.slot = s.routine.slots
		s.routine.slots++
		switch l.kind {
		case loadContext:
			out.loads = append(out.loads, slotLoad{slot: v.slot, from: ref{-1, b.contextSlot(name)}})
		case loadAlias:
			out.loads = append(out.loads, slotLoad{slot: v.slot, from: l.outer.from(s)})
		case loadNothing:
			out.loads = append(out.loads, slotLoad{slot: v.slot, undefined: &undefined{name: name}})
		}
	}
	return out
}

// from is where v is found from a scope of s.
func (v *variable) from(s *symbols) ref {
	if v.context {
		return ref{-1, v.slot}
	}
	return ref{s.routine.depth - v.routine.depth, v.slot}
}

func (b *binder) name(n *nameExpr, s *symbols) {
	if v := s.find(n.name); v != nil {
		n.ref = v.from(s)
	} else {
		n.ref = ref{-1, b.contextSlot(n.name)}
	}
}

// stmts binds a body in scope s. Under an if, an unknown filter or test is an error only once it is used: templates
// guard them by what they know about the program that renders them.
func (b *binder) stmts(body []stmt, s *symbols, guarded bool) error {
	for _, n := range body {
		if err := b.stmt(n, s, guarded); err != nil {
			return err
		}
	}
	return nil
}

func (b *binder) stmt(n stmt, s *symbols, guarded bool) error {
	switch n := n.(type) {
	case *ifStmt:
		return b.ifChain(n, s)
	case *forStmt:
		return b.forLoop(n, s, guarded)
	case *setBlockStmt:
		inner := s.inner(nil)
		visitAll(inner, n.body)
		if n.filter != nil {
			inner.visit(n.filter)
		}
		n.scope = b.scope(inner, false)
		if err := b.block(n.body, n.filter, inner); err != nil {
			return err
		}
		return b.expr(n.target, s, guarded)
	case *filterStmt:
		inner := s.inner(nil)
		visitAll(inner, n.body)
		inner.visit(n.filter)
		n.scope = b.scope(inner, false)
		return b.block(n.body, n.filter, inner)
	case *withStmt:
		inner := s.inner(nil)
		visitAll(inner, n.targets)
		visitAll(inner, n.body)
		n.scope = b.scope(inner, false)
		for i := range n.targets {
			if err := b.expr(n.values[i], s, guarded); err != nil {
				return err
			}
			if err := b.expr(n.targets[i], inner, false); err != nil {
				return err
			}
		}
		return b.stmts(n.body, inner, false)
	case *macroStmt:
		b.name(n.target, s)
		return b.macro(n.def, s, int(n.at))
	case *callStmt:
		if n.call != nil {
			if err := b.expr(n.call, s, guarded); err != nil {
				return err
			}
		}
		return b.macro(n.def, s, int(n.at))
	}
	return b.expr(n, s, guarded)
}

// block binds a body whose text is captured and may go through a filter.
func (b *binder) block(body []stmt, filter *filterExpr, s *symbols) error {
	if err := b.stmts(body, s, false); err != nil || filter == nil {
		return err
	}
	return b.expr(filter, s, false)
}

func (b *binder) ifChain(n *ifStmt, s *symbols) error {
	if err := b.expr(n.test, s, true); err != nil {
		return err
	}
	if err := b.stmts(n.body, s, true); err != nil {
		return err
	}
	for _, e := range n.elifs {
		if err := b.ifChain(e, s); err != nil {
			return err
		}
	}
	return b.stmts(n.other, s, true)
}

func (b *binder) forLoop(n *forStmt, s *symbols, guarded bool) error {
	var own *routine
	if n.recursive {
		own = &routine{depth: s.routine.depth + 1}
	}
	if err := refuseLoopTarget(n); err != nil {
		return err
	}
	loop := s.inner(own)
	n.extended = n.recursive || undeclared(n.body, "loop")["loop"]
	if n.extended {
		loop.declare("loop")
	}
	loop.target(n.target)
	visitAll(loop, n.body)
	n.scope = b.scope(loop, n.recursive)
	if n.extended {
		n.loop = loop.find("loop").from(loop)
	}
	if err := b.expr(n.seq, s, guarded); err != nil {
		return err
	}
	if err := b.expr(n.target, loop, false); err != nil {
		return err
	}
	if n.test != nil {
		// The test of the next element may run in the middle of the body, when that asks for loop.last. So its target has
		// variables of its own.
		test := s.inner(nil)
		n.testTarget = cloneTarget(n.target)
		test.target(n.testTarget)
		test.visit(n.test)
		n.testScope = b.scope(test, false)
		if err := b.expr(n.testTarget, test, false); err != nil {
			return err
		}
		if err := b.expr(n.test, test, false); err != nil {
			return err
		}
	}
	if err := b.stmts(n.body, loop, false); err != nil {
		return err
	}
	other := s.inner(own)
	visitAll(other, n.other)
	n.elseScope = b.scope(other, false)
	return b.stmts(n.other, other, false)
}

// refuseLoopTarget fails if anything in a loop assigns to the name loop.
func refuseLoopTarget(n *forStmt) error {
	var err error
	var visit func(n any)
	visit = func(n any) {
		if name, ok := n.(*nameExpr); ok && name.name == "loop" && name.use == useStore {
			err = errAt(int(name.at), errors.New("the variable loop cannot be assigned to in a loop"))
		}
		children(n, visit)
	}
	visit(n)
	return err
}

func cloneTarget(e expr) expr {
	switch e := e.(type) {
	case *nameExpr:
		c := *e
		return &c
	case *tupleExpr:
		c := &tupleExpr{}
		for _, item := range e.items {
			c.items = append(c.items, cloneTarget(item))
		}
		return c
	}
	return e
}

func (b *binder) macro(d *macroDef, s *symbols, offset int) error {
	inner := s.inner(&routine{depth: s.routine.depth + 1})
	read := undeclared(d.body, "caller", "varargs", "kwargs")
	for i, p := range d.params {
		if p.name == "caller" && read["caller"] && i < len(d.params)-len(d.defaults) {
			return errAt(offset, errors.New("the parameter caller must have a default"))
		}
		delete(read, p.name)
	}
	special := func(name string) *nameExpr {
		if !read[name] {
			return nil
		}
		inner.declare(name)
		return &nameExpr{name: name, use: useParam}
	}
	d.caller, d.varargs, d.kwargs = special("caller"), special("varargs"), special("kwargs")
	visitAll(inner, d.params)
	visitAll(inner, d.defaults)
	visitAll(inner, d.body)
	d.scope = b.scope(inner, true)
	for _, p := range d.params {
		b.name(p, inner)
	}
	for _, p := range []*nameExpr{d.caller, d.varargs, d.kwargs} {
		if p != nil {
			b.name(p, inner)
		}
	}
	for _, e := range d.defaults {
		if err := b.expr(e, inner, false); err != nil {
			return err
		}
	}
	return b.stmts(d.body, inner, false)
}

// expr binds an expression, or a statement that holds nothing but expressions.
func (b *binder) expr(n any, s *symbols, guarded bool) error {
	switch n := n.(type) {
	case *nameExpr:
		b.name(n, s)
		return nil
	case *condExpr:
		guarded = true
	case *filterExpr:
		if n.fn = filters[n.name]; n.fn == nil && !guarded {
			return errAt(int(n.at), fmt.Errorf("there is no filter named '%s'", n.name))
		}
	case *testExpr:
		if n.fn = tests[n.name]; n.fn == nil && !guarded {
			return errAt(int(n.at), fmt.Errorf("there is no test named '%s'", n.name))
		}
	}
	var err error
	children(n, func(child any) {
		if err == nil {
			err = b.expr(child, s, guarded)
		}
	})
	return err
}
