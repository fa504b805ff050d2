package jinja

// Variables at run time. bind has decided where each one lives.

// frame holds the variables of a function: of the template or of a macro. Functions see the variables of the functions
// around them.
type frame struct {
	vars  []Value
	outer *frame
}

// ref is the place of a variable: a slot in the frame of the function that is up levels out. If up is -1, slot is the position
// among the variables of the context.
type ref struct{ up, slot int }

// in returns the frame that holds the variable, seen from the frame f.
func (p ref) in(f *frame) *frame {
	for range p.up {
		f = f.outer
	}
	return f
}

func (p ref) get(r *render, f *frame) Value {
	if p.up < 0 {
		return r.ctx[p.slot]
	}
	return p.in(f).vars[p.slot]
}

func (p ref) set(f *frame, v Value) { p.in(f).vars[p.slot] = v }

// scope has the parts of a scope that rendering needs.
type scope struct {
	routine *routine // nil if the variables are in the frame of the surrounding function
	loads   []slotLoad
}

// slotLoad sets the first value of a variable: the value of another variable, or undefined.
type slotLoad struct {
	slot      int
	from      ref
	undefined *undefined // if not nil
}

// routine is a function with its own frame.
type routine struct {
	depth int // number of functions around it
	slots int // number of slots of its frame
}

// enter starts the scope. It returns the frame in which the scope runs. The frame is new if the scope belongs to a function.
func (s *scope) enter(r *render, f *frame) *frame {
	if s.routine != nil {
		r.spend(s.routine.slots)
		f = &frame{vars: make([]Value, s.routine.slots), outer: f}
	}
	s.load(r, f)
	return f
}

// load sets the first values of the scope's variables. f is the frame that has them.
func (s *scope) load(r *render, f *frame) {
	r.spend(len(s.loads))
	for i := range s.loads {
		l := &s.loads[i]
		if l.undefined != nil {
			f.vars[l.slot] = l.undefined
		} else {
			f.vars[l.slot] = l.from.get(r, f)
		}
	}
}
