package jinja

import "maps"

// Before a template runs, Jinja decides to which scope each name belongs. A name that is set
// anywhere in a scope belongs to this scope from its start. Until it is set, it has the value of
// the surrounding scope. This file makes the same decisions, and visits the names in the same order
// as Jinja. The order matters: if only one branch of an if sets a name, its value in the other
// branches depends on where the template first reads it.

// variable is a name in a scope. It is stored in a slot of a frame or, if the template never sets
// it, among the variables of the context.
type variable struct {
	name    string
	routine *routine
	slot    int
	context bool // slot is the index among the variables of the context
}

type loadKind uint8

const (
	loadParam   loadKind = iota // set by the loop or the call that opens the scope
	loadContext                 // from the context
	loadAlias                   // from the surrounding scope
	loadNothing                 // undefined
)

type load struct {
	kind  loadKind
	outer *variable // the source for loadAlias
}

// symbols has the names of a scope while binder collects them. For an if, the names of each branch
// are collected in a copy, and join combines the copies.
type symbols struct {
	parent  *symbols
	routine *routine
	made    map[string]*variable // all variables of the scope; copies share the map
	refs    map[string]*variable
	loads   map[*variable]load
	stores  map[string]bool
}

// inner returns the symbols of a scope inside s. The parameter in is the routine of that scope; nil
// for the routine of s.
func (s *symbols) inner(in *routine) *symbols {
	if in == nil {
		in = s.routine
	}
	return newSymbols(s, in)
}

func newSymbols(parent *symbols, in *routine) *symbols {
	return &symbols{
		parent: parent, routine: in, made: map[string]*variable{}, refs: map[string]*variable{},
		loads: map[*variable]load{}, stores: map[string]bool{},
	}
}

func (s *symbols) copy() *symbols {
	c := newSymbols(s.parent, s.routine)
	c.made = s.made
	c.add(s)
	return c
}

func (s *symbols) add(other *symbols) {
	maps.Copy(s.refs, other.refs)
	maps.Copy(s.loads, other.loads)
	maps.Copy(s.stores, other.stores)
}

func (s *symbols) find(name string) *variable {
	for ; s != nil; s = s.parent {
		if v := s.refs[name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *symbols) define(name string, l load) {
	v := s.made[name]
	if v == nil {
		v = &variable{name: name, routine: s.routine}
		s.made[name] = v
	}
	s.refs[name] = v
	s.loads[v] = l
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, load{kind: loadContext})
	}
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if s.refs[name] != nil {
		return
	}
	if outer := s.parent.find(name); outer != nil {
		s.define(name, load{loadAlias, outer})
		return
	}
	s.define(name, load{kind: loadNothing})
}

func (s *symbols) declare(name string) {
	s.stores[name] = true
	s.define(name, load{kind: loadParam})
}

func (s *symbols) target(e any) {
	if n, ok := e.(*nameExpr); ok {
		s.declare(n.name)
		return
	}
	children(e, s.target)
}

// join combines the names of the branches of an if. If only some branches set a name, the name
// keeps its earlier value in the others.
func (s *symbols) join(branches ...*symbols) {
	set := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !s.stores[name] {
				set[name] = true
			}
		}
	}
	for _, b := range branches {
		s.add(b)
	}
	for name := range set {
		v := s.find(name)
		if outer := s.parent.find(name); outer != nil {
			s.loads[v] = load{loadAlias, outer}
		} else {
			s.loads[v] = load{kind: loadContext}
		}
	}
}

func (s *symbols) visit(n any) {
	switch n := n.(type) {
	case *nameExpr:
		switch n.use {
		case useLoad:
			s.load(n.name)
		case useStore:
			s.store(n.name)
		case useParam:
			s.declare(n.name)
		}
	case *ifStmt:
		s.visit(n.test)
		body, elifs, other := s.copy(), s.copy(), s.copy()
		each(n.body, body.visit)
		each(n.elifs, elifs.visit)
		each(n.other, other.visit)
		s.join(body, elifs, other)
	case *setStmt:
		s.visit(n.value)
		s.visit(n.target)
	case *captureStmt:
		if n.target != nil {
			s.visit(n.target)
		} else {
			s.visit(n.filter)
		}
	case *forStmt:
		s.visit(n.seq)
	case *macroStmt:
		s.store(n.def.name)
	case *generationStmt:
	default:
		children(n, s.visit)
	}
}

func reads(body []stmt, name string) bool {
	open, found := true, false
	var visit func(n any)
	visit = func(n any) {
		e, ok := n.(*nameExpr)
		switch {
		case !ok:
			children(n, visit)
		case e.name != name:
		case e.use != useLoad:
			open = false
		case open:
			found = true
		}
	}
	each(body, visit)
	return found
}
