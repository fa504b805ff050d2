package jinja

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-run/ingot/ordered"
)

// Limits of a template and of one rendering of it.
const (
	maxSource  = 4 << 20  // bytes of a template
	maxNesting = 200      // statements and expressions inside each other
	maxChain   = 2000     // operators, filters or attributes one after another in an expression
	maxOutput  = 64 << 20 // bytes of the prompt, and of any string or list on the way: what render.most starts with
	maxDepth   = 1000     // values inside each other
	maxCalls   = 200      // macros and loops calling each other
	maxRange   = 100_000  // length of a range, as in Jinja's sandbox
	maxBudget  = 1 << 28  // what render.budget starts with: stepCost a step, 1 a byte written or looked through, itemCost an element of a list made
	stepCost   = 16
	itemCost   = 32
)

var (
	errBudget = errors.New("the template runs for too long: it has used up its budget of steps")
	errDepth  = fmt.Errorf("values are nested more than %d deep", maxDepth)
	errCalls  = fmt.Errorf("macros or recursive loops call each other more than %d deep", maxCalls)
	errOutput = errors.New("the template makes too large a text or list")
)

// render is one rendering of a template.
type render struct {
	t      *Template
	now    time.Time
	ctx    []Value // the context's variables, as t.names
	out    []byte  // what is written; a block whose text is captured writes behind it and takes its part off
	budget int     // what is left of it
	most   int     // bytes of the longest text or list that may be made
	calls  int     // depth of calls
	depth  int     // depth in a value that is printed or compared
}

var renders = sync.Pool{New: func() any { return new(render) }}

func newRender(t *Template, ctx *ordered.Object, now time.Time) *render {
	r := renders.Get().(*render)
	out, vars := r.out[:0], r.ctx[:0]
	if ctx == nil {
		ctx = ordered.NewObject()
	}
	for i, name := range t.names {
		v := Value(t.absent[i])
		if got, ok := ctx.Get(name); ok {
			v = got
		} else if f, ok := globals[name]; ok {
			v = f
		}
		vars = append(vars, v)
	}
	*r = render{t: t, now: now, ctx: vars, out: out, budget: maxBudget, most: maxOutput}
	return r
}

// release gives the memory of r to later renderings, unless it is a lot.
func (r *render) release() {
	if cap(r.out) > 1<<20 {
		r.out = nil
	}
	clear(r.ctx)
	r.t = nil
	renders.Put(r)
}

// frame holds the variables of a function: of the template, a macro, a call block or a recursive loop. Functions see the
// variables of the functions that they stand in.
type frame struct {
	vars  []Value
	outer *frame
}

// flow is how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

func (r *render) run(body []stmt, f *frame) (flow, error) {
	for _, s := range body {
		if err := r.step(); err != nil {
			return flowNext, err
		}
		if fl, err := s.exec(r, f); fl != flowNext || err != nil {
			return fl, err
		}
	}
	return flowNext, nil
}

// capture runs a body and returns what it wrote.
func (r *render) capture(body []stmt, f *frame) (string, flow, error) {
	start := len(r.out)
	fl, err := r.run(body, f)
	s := string(r.out[start:])
	r.out = r.out[:start]
	return s, fl, err
}

func (r *render) write(s string) error {
	r.out = append(r.out, s...)
	if err := r.fits(len(r.out)); err != nil {
		return err
	}
	return r.spend(len(s))
}

// step is called for every statement and every operation of an expression.
func (r *render) step() error { return r.spend(stepCost) }

// spend takes a cost off the budget. Once it is used up, every later call fails too.
func (r *render) spend(cost int) error {
	r.budget -= cost
	if r.budget < 0 {
		return errBudget
	}
	return nil
}

// room checks and pays for a string of n times size bytes that is about to be made.
func (r *render) room(size, n int) error {
	if size > 0 && n > r.most/size {
		return errOutput
	}
	return r.spend(size * max(n, 0))
}

// list checks and pays for a list of n elements that is about to be made.
func (r *render) list(n int) error {
	if n > r.most/itemCost {
		return errOutput
	}
	return r.spend(n * itemCost)
}

// fits checks the length of a text that grows.
func (r *render) fits(n int) error {
	if n > r.most {
		return errOutput
	}
	return nil
}
