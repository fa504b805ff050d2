package jinja

// Variables at run time. bind has decided in which frame and slot each variable is stored.

// frame has the variables of a running function, which is the template or a macro. outer is the
// frame of the function in which the macro was defined. The macro can use its variables too.
type frame struct {
	vars  []Value
	outer *frame
}

// ref refers to a variable: a slot in a frame. up is the number of times that outer is followed
// from the current frame; 0 is the current frame. If up is -1, slot is the index of a variable of
// the context.
type ref struct{ up, slot int }

// in returns the frame that has the variable, for code that runs in frame f.
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

type scope struct {
	routine *routine // nil if the variables are in the frame of the surrounding function
	loads   []slotLoad
}

// slotLoad sets the variable in a slot when its scope starts. The value is in the field undefined.
// If this field is nil, the value is that of another variable, to which the field from refers.
type slotLoad struct {
	slot      int
	from      ref
	undefined *undefined
}

type routine struct {
	depth int // number of functions around the routine
	slots int // number of slots in its frame
}

// enter starts the scope and returns the frame in which it runs. A scope with a routine gets a new
// frame.
func (s *scope) enter(r *render, f *frame) *frame {
	if s.routine != nil {
		r.spend(s.routine.slots)
		f = &frame{vars: make([]Value, s.routine.slots), outer: f}
	}
	s.load(r, f)
	return f
}

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
