package jinja

import "errors"

// loopContext is a running loop and the variable loop in its body.
type loopContext struct {
	stmt  *forStmt
	outer *frame // the frame around the loop
	it    cursor
	depth int // of recursion, from 0

	index   int // from 0; -1 before the first element
	total   int // number of elements; -1 if it is not known yet
	current Value
	before  Value
	ahead   Value // the next element, where hasAhead
	changed []Value

	hasAhead, hasChanged bool
}

func (s *forStmt) exec(r *render, f *frame) (flow, error) {
	seq, err := s.seq.eval(r, f)
	if err == nil {
		if s.recursive {
			var text string
			if text, err = s.recurse(r, f, seq, 0); err == nil {
				err = r.write(text)
			}
		} else {
			var fl flow
			if fl, err = s.loopOver(r, f, f, seq, 0); fl != flowNext {
				return fl, err
			}
		}
	}
	if err != nil {
		return flowNext, errAt(int(s.at), err)
	}
	return flowNext, nil
}

// recurse runs a recursive loop over seq and returns what it writes.
func (s *forStmt) recurse(r *render, outer *frame, seq Value, depth int) (string, error) {
	if err := r.enterCall(); err != nil {
		return "", err
	}
	defer r.leaveCall()
	start := len(r.out)
	f := s.scope.routine.frame(r, outer)
	_, err := s.loopOver(r, outer, f, seq, depth)
	text := string(r.out[start:])
	r.out = r.out[:start]
	return text, err
}

// loopOver runs the loop. The frame f is that of the body, outer is the one around, which is the same unless the loop is
// recursive. A break or continue that it returns stood in the else branch.
func (s *forStmt) loopOver(r *render, outer, f *frame, seq Value, depth int) (flow, error) {
	loop := &loopContext{stmt: s, outer: outer, depth: depth, index: -1, total: -1}
	if err := loop.open(r, seq); err != nil {
		return flowNext, err
	}
	if s.extended {
		s.loop.set(f, loop)
	}
	completed := false // whether a body ran to its end, which is what decides about else in Jinja
	for {
		if err := r.step(); err != nil {
			return flowNext, err
		}
		v, ok, err := loop.next()
		if err != nil {
			return flowNext, err
		}
		if !ok {
			break
		}
		if err := assign(r, f, s.target, v); err != nil {
			return flowNext, err
		}
		s.scope.load(r, f)
		fl, err := r.run(s.body, f)
		if err != nil {
			return flowNext, err
		}
		if fl == flowBreak {
			break
		}
		completed = completed || fl == flowNext
	}
	if completed || len(s.other) == 0 {
		return flowNext, nil
	}
	s.elseScope.load(r, f)
	return r.run(s.other, f)
}

// open starts the iteration.
func (l *loopContext) open(r *render, seq Value) error {
	var err error
	if l.it, err = r.iterate(seq); err != nil {
		return err
	}
	if l.stmt.test == nil {
		if l.it.next == nil {
			l.total = len(l.it.items)
		}
		return nil
	}
	s, f, source := l.stmt, l.outer, l.it
	s.testScope.load(r, f)
	l.it = cursor{next: func() (Value, bool, error) {
		for {
			v, ok, err := source.step()
			if err != nil || !ok {
				return nil, false, err
			}
			if err := r.step(); err != nil {
				return nil, false, err
			}
			if err := assign(r, f, s.testTarget, v); err != nil {
				return nil, false, err
			}
			keep, err := s.test.eval(r, f)
			if err != nil {
				return nil, false, err
			}
			if truth(keep) {
				return unpacked(r, f, s.testTarget, v), true, nil
			}
		}
	}}
	return nil
}

// unpacked is the element v after the test of a loop: where the target is a tuple, it is a tuple of the variables.
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

// next goes on to the next element.
func (l *loopContext) next() (Value, bool, error) {
	v, ok, err := l.peek()
	if err != nil || !ok {
		return nil, false, err
	}
	l.hasAhead, l.ahead = false, nil
	l.index++
	l.before, l.current = l.current, v
	return v, true, nil
}

// peek looks at the next element.
func (l *loopContext) peek() (Value, bool, error) {
	if l.hasAhead {
		return l.ahead, true, nil
	}
	v, ok, err := l.it.step()
	if err == nil && ok {
		l.ahead, l.hasAhead = v, true
	}
	return v, ok, err
}

// length is the number of elements. Those of a generator are all fetched to count them.
func (l *loopContext) length() (int, error) {
	if l.total >= 0 {
		return l.total, nil
	}
	rest, err := l.it.rest()
	if err != nil {
		return 0, err
	}
	l.it = cursor{items: rest}
	l.total = len(rest) + l.index + 1
	if l.hasAhead {
		l.total++
	}
	return l.total, nil
}

// attr is an attribute of the variable loop.
func (l *loopContext) attr(name string) (Value, bool, error) {
	switch name {
	case "index":
		return int64(l.index + 1), true, nil
	case "index0":
		return int64(l.index), true, nil
	case "first":
		return l.index == 0, true, nil
	case "last":
		_, more, err := l.peek()
		return !more, true, err
	case "length":
		n, err := l.length()
		return int64(n), true, err
	case "revindex":
		n, err := l.length()
		return int64(n - l.index), true, err
	case "revindex0":
		n, err := l.length()
		return int64(n - l.index - 1), true, err
	case "depth":
		return int64(l.depth + 1), true, nil
	case "depth0":
		return int64(l.depth), true, nil
	case "previtem":
		if l.index == 0 {
			return &undefined{hint: "there is no previous item"}, true, nil
		}
		return l.before, true, nil
	case "nextitem":
		v, ok, err := l.peek()
		if !ok {
			v = &undefined{hint: "there is no next item"}
		}
		return v, true, err
	case "cycle":
		return &function{name: name, fn: l.cycle}, true, nil
	case "changed":
		return &function{name: name, fn: l.isChanged}, true, nil
	}
	return nil, false, nil
}

func (l *loopContext) cycle(_ *render, a args) (Value, error) {
	if len(a.pos) == 0 || len(a.named) > 0 {
		return nil, errors.New("loop.cycle needs values to choose from")
	}
	return a.pos[l.index%len(a.pos)], nil
}

// isChanged says whether the values differ from those of the last call.
func (l *loopContext) isChanged(r *render, a args) (Value, error) {
	if len(a.named) > 0 {
		return nil, errors.New("loop.changed takes no named arguments")
	}
	if l.hasChanged {
		same, err := r.equal(tuple(l.changed), tuple(a.pos))
		if same || err != nil {
			return false, err
		}
	}
	l.changed, l.hasChanged = a.pos, true
	return true, nil
}

// call is loop(seq) in a recursive loop.
func (l *loopContext) call(r *render, a args) (Value, error) {
	if !l.stmt.recursive {
		return nil, errors.New("only a recursive loop can be called")
	}
	if len(a.pos) != 1 || len(a.named) > 0 {
		return nil, errors.New("loop takes one argument when it is called")
	}
	return l.stmt.recurse(r, l.outer, a.pos[0], l.depth+1)
}
