package jinja

// loopContext is a running loop. It is also the value of the variable loop in the loop's body.
type loopContext struct {
	stmt *forStmt
	it   cursor

	index   int // from 0; -1 before the first element
	total   int // number of elements; -1 if it is not known yet
	current Value
	before  Value
	ahead   Value // the next element, if hasAhead is set

	hasAhead bool
}

// exec runs the loop. A break or continue in the else branch belongs to an outer loop, so exec
// returns it.
func (s *forStmt) exec(r *render, f *frame) flow {
	seq := s.seq.eval(r, f)
	r.at = int(s.at)
	loop := &loopContext{stmt: s, index: -1, total: -1}
	loop.open(r, f, seq)
	if s.extended {
		s.loop.set(f, loop)
	}
	completed := false // the body ran to its end at least once; otherwise, Jinja runs the else branch
	for {
		r.step()
		v, ok := loop.next()
		if !ok {
			break
		}
		r.at = int(s.at)
		r.assign(f, s.target, v)
		s.scope.load(r, f)
		fl := r.run(s.body, f)
		if fl == flowBreak {
			break
		}
		completed = completed || fl == flowNext
	}
	if completed || len(s.other) == 0 {
		return flowNext
	}
	s.elseScope.load(r, f)
	return r.run(s.other, f)
}

func (l *loopContext) open(r *render, f *frame, seq Value) {
	l.it = r.iterate(seq)
	if l.stmt.test == nil {
		if l.it.next == nil {
			l.total = len(l.it.items)
		}
		return
	}
	s, source := l.stmt, l.it
	s.testScope.load(r, f)
	l.it = cursor{next: func() (Value, bool) {
		for {
			v, ok := source.step()
			if !ok {
				return nil, false
			}
			r.step()
			r.assign(f, s.testTarget, v)
			if truth(s.test.eval(r, f)) {
				return unpacked(r, f, s.testTarget, v), true
			}
		}
	}}
}

// unpacked returns the element for the loop's body after the test: the value of the target's
// variable, or a tuple of values for a tuple.
func unpacked(r *render, f *frame, target expr, v Value) Value {
	switch t := target.(type) {
	case *nameExpr:
		return t.ref.get(r, f)
	case *tupleExpr:
		out := make(tuple, len(t.items))
		for i, item := range t.items {
			out[i] = unpacked(r, f, item, nil)
		}
		return out
	}
	return v
}

func (l *loopContext) next() (Value, bool) {
	v, ok := l.peek()
	if !ok {
		return nil, false
	}
	l.hasAhead, l.ahead = false, nil
	l.index++
	l.before, l.current = l.current, v
	return v, true
}

func (l *loopContext) peek() (Value, bool) {
	if l.hasAhead {
		return l.ahead, true
	}
	v, ok := l.it.step()
	if ok {
		l.ahead, l.hasAhead = v, true
	}
	return v, ok
}

// length returns the number of elements. To count the elements of a generator, it computes all of
// them.
func (l *loopContext) length() int {
	if l.total < 0 {
		rest := l.it.rest()
		l.it = cursor{items: rest}
		l.total = len(rest) + l.index + 1
		if l.hasAhead {
			l.total++
		}
	}
	return l.total
}

func (l *loopContext) attr(r *render, name string) (Value, bool) {
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "first":
		return l.index == 0, true
	case "last":
		_, more := l.peek()
		return !more, true
	case "length":
		return int64(l.length()), true
	case "revindex":
		return int64(l.length() - l.index), true
	case "revindex0":
		return int64(l.length() - l.index - 1), true
	case "previtem":
		if l.index == 0 {
			return &undefined{hint: "there is no previous item", strict: r.t.strict}, true
		}
		return l.before, true
	case "nextitem":
		if v, ok := l.peek(); ok {
			return v, true
		}
		return &undefined{hint: "there is no next item", strict: r.t.strict}, true
	}
	return nil, false
}
