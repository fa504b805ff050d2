package jinja

// flow reports how a statement ended: normally, or by a break or continue.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

func (r *render) run(body []stmt, f *frame) flow {
	for _, s := range body {
		r.step()
		if fl := s.exec(r, f); fl != flowNext {
			return fl
		}
	}
	return flowNext
}

func (r *render) capture(body []stmt, f *frame) (string, flow) {
	start := len(r.out)
	fl := r.run(body, f)
	s := string(r.out[start:])
	r.out = r.out[:start]
	return s, fl
}

func (r *render) write(s string) {
	r.out = append(r.out, s...)
	r.fits(len(r.out))
	r.spend(len(s))
}

func (s *textStmt) exec(r *render, _ *frame) flow {
	r.write(s.text)
	return flowNext
}

func (s *printStmt) exec(r *render, f *frame) flow {
	v := s.value.eval(r, f)
	r.at = int(s.at)
	r.write(r.str(v))
	return flowNext
}

func (s *ifStmt) exec(r *render, f *frame) flow {
	if truth(s.test.eval(r, f)) {
		return r.run(s.body, f)
	}
	for _, branch := range s.elifs {
		if truth(branch.test.eval(r, f)) {
			return r.run(branch.body, f)
		}
	}
	return r.run(s.other, f)
}

func (s *setStmt) exec(r *render, f *frame) flow {
	r.at = int(s.at)
	checkNamespaces(r, f, s.target)
	v := s.value.eval(r, f)
	r.at = int(s.at)
	r.assign(f, s.target, v)
	return flowNext
}

func (e *attrTarget) namespaceOf(r *render, f *frame) *namespace {
	ns, ok := e.object.ref.get(r, f).(*namespace)
	if !ok {
		fail("cannot set an attribute of this value: only namespaces have attributes that can be set")
	}
	return ns
}

func checkNamespaces(r *render, f *frame, target expr) {
	switch t := target.(type) {
	case *attrTarget:
		t.namespaceOf(r, f)
	case *tupleExpr:
		for _, item := range t.items {
			checkNamespaces(r, f, item)
		}
	}
}

// assign assigns a value to a target. If the target is a tuple, it assigns each element of the
// value to one item of the tuple.
func (r *render) assign(f *frame, target expr, v Value) {
	switch t := target.(type) {
	case *nameExpr:
		t.ref.set(f, v)
	case *attrTarget:
		t.namespaceOf(r, f).attrs.Set(t.name, v)
	case *tupleExpr:
		items := r.items(v)
		if len(items) != len(t.items) {
			fail("cannot unpack %d values into %d names", len(items), len(t.items))
		}
		for i, item := range t.items {
			r.assign(f, item, items[i])
		}
	}
}

func (s *captureStmt) exec(r *render, f *frame) flow {
	inner := s.scope.enter(r, f)
	captured, fl := r.capture(s.body, inner)
	if fl != flowNext {
		return fl
	}
	var v Value = captured
	if s.filter != nil {
		v = s.filter.apply(r, inner, v)
	}
	r.at = int(s.at)
	if s.target != nil {
		r.assign(f, s.target, v)
		return flowNext
	}
	out, ok := text(v)
	if !ok {
		fail("the filter of this block returns a value of type '%s', but must return a string", typeName(v))
	}
	r.write(out)
	return flowNext
}

func (s *loopControl) exec(*render, *frame) flow { return s.flow }

func (s *macroStmt) exec(_ *render, f *frame) flow {
	s.target.ref.set(f, &macro{s.def, f})
	return flowNext
}

func (s *generationStmt) exec(r *render, f *frame) flow {
	m := macro{s.def, f}
	r.write(m.call(r, args{}))
	return flowNext
}
