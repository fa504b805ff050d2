package jinja

import (
	"maps"
	"slices"
)

type binder struct {
	t       *Template
	context map[string]int // index of each variable in t.names
}

func (t *Template) bind() {
	b := binder{t: t, context: map[string]int{}}
	s := newSymbols(nil, &routine{})
	each(t.body, s.visit)
	t.root = b.scope(s, true)
	b.stmts(t.body, s, false)
}

func (b *binder) contextSlot(name string) int {
	i, ok := b.context[name]
	if !ok {
		i = len(b.t.names)
		b.context[name] = i
		b.t.names = append(b.t.names, name)
		b.t.absent = append(b.t.absent, &undefined{name: name, strict: b.t.strict})
	}
	return i
}

// scope assigns slots to the variables of s. Scopes inside s refer to these slots and must be bound
// afterwards. ownFrame is true for the template and for macros, which run in a frame of their own.
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
			out.loads = append(out.loads, slotLoad{slot: v.slot, undefined: &undefined{name: name, strict: b.t.strict}})
		}
	}
	return out
}

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
	if n.ref.up < 0 {
		refuseGlobal(n, s.routine.depth > 0)
	}
}

// stmts binds a body in scope s. guarded reports whether the body is inside an if. An unknown
// filter or test inside an if is an error only when it runs: templates use such an if to test
// whether the program that renders them has a feature.
func (b *binder) stmts(body []stmt, s *symbols, guarded bool) {
	for _, n := range body {
		b.stmt(n, s, guarded)
	}
}

func (b *binder) stmt(n stmt, s *symbols, guarded bool) {
	switch n := n.(type) {
	case *ifStmt:
		b.ifChain(n, s)
	case *forStmt:
		b.forLoop(n, s, guarded)
	case *captureStmt:
		inner := s.inner(nil)
		each(n.body, inner.visit)
		if n.filter != nil {
			inner.visit(n.filter)
		}
		n.scope = b.scope(inner, false)
		b.stmts(n.body, inner, false)
		if n.filter != nil {
			b.expr(n.filter, inner, false)
		}
		if n.target != nil {
			b.expr(n.target, s, guarded)
		}
	case *macroStmt:
		b.name(n.target, s)
		b.macro(n.def, s)
	case *generationStmt:
		b.macro(n.def, s)
	default:
		b.expr(n, s, guarded)
	}
}

func (b *binder) ifChain(n *ifStmt, s *symbols) {
	b.expr(n.test, s, true)
	b.stmts(n.body, s, true)
	for _, e := range n.elifs {
		b.ifChain(e, s)
	}
	b.stmts(n.other, s, true)
}

func (b *binder) forLoop(n *forStmt, s *symbols, guarded bool) {
	refuseLoopTarget(n)
	loop := s.inner(nil)
	n.extended = reads(n.body, "loop")
	if n.extended {
		loop.declare("loop")
	}
	loop.target(n.target)
	each(n.body, loop.visit)
	n.scope = b.scope(loop, false)
	if n.extended {
		n.loop = loop.find("loop").from(loop)
	}
	b.expr(n.seq, s, guarded)
	b.expr(n.target, loop, false)
	if n.test != nil {
		// If the body uses loop.last, the test of the next element runs in the middle of the body.
		// The test therefore has its own variables for the target.
		test := s.inner(nil)
		n.testTarget = cloneTarget(n.target)
		test.target(n.testTarget)
		test.visit(n.test)
		n.testScope = b.scope(test, false)
		b.expr(n.testTarget, test, false)
		b.expr(n.test, test, false)
	}
	b.stmts(n.body, loop, false)
	other := s.inner(nil)
	each(n.other, other.visit)
	n.elseScope = b.scope(other, false)
	b.stmts(n.other, other, false)
}

func refuseLoopTarget(n *forStmt) {
	var visit func(n any)
	visit = func(n any) {
		if name, ok := n.(*nameExpr); ok && name.name == "loop" && name.use == useStore {
			failAt(int(name.at), "the variable loop cannot be assigned to in a loop")
		}
		children(n, visit)
	}
	visit(n)
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

func (b *binder) macro(d *macroDef, s *symbols) {
	inner := s.inner(&routine{depth: s.routine.depth + 1})
	each(d.params, inner.visit)
	each(d.defaults, inner.visit)
	each(d.body, inner.visit)
	d.scope = b.scope(inner, true)
	for _, p := range d.params {
		b.name(p, inner)
	}
	for _, e := range d.defaults {
		b.expr(e, inner, false)
	}
	b.stmts(d.body, inner, false)
}

// expr binds the names, filters and tests in an expression, or in a statement that contains only
// expressions.
func (b *binder) expr(n any, s *symbols, guarded bool) {
	refuseFormat(n)
	switch n := n.(type) {
	case *nameExpr:
		b.name(n, s)
		return
	case *condExpr:
		guarded = true
	case *filterExpr:
		table := filters
		if n.kind == "test" {
			table = tests
		}
		if n.fn = table[n.name]; n.fn == nil && !guarded {
			failAt(int(n.at), "there is no %s named '%s'", n.kind, n.name)
		}
	}
	children(n, func(child any) { b.expr(child, s, guarded) })
}
