package jinja

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-run/ingot/internal/ordered"
)

// Limits of a template and of one rendering of it.
const (
	maxSource  = 4 << 20  // bytes of a template
	maxNesting = 200      // levels of nested statements and expressions
	maxChain   = 2000     // operators, filters or attributes that follow one another in an expression
	maxOutput  = 64 << 20 // bytes of the prompt, and of any string or list that the template makes
	maxDepth   = 1000     // levels of nested values
	maxCalls   = 200      // levels of nested macro calls
	maxRange   = 100_000  // length of a range, as in Jinja's sandbox
	maxBudget  = 1 << 28  // maximum cost of a rendering: stepCost per step, 1 per byte written or searched, itemCost per element of a new list
	stepCost   = 16
	itemCost   = 32
	pace       = 1 << 20 // cost between two looks at whether the rendering was cancelled, which takes a few milliseconds
)

var (
	errBudget = errors.New("the template needs more steps than allowed; shorten the messages or simplify the template")
	errDepth  = fmt.Errorf("values are nested more than %d levels deep", maxDepth)
	errCalls  = fmt.Errorf("calls of macros are nested more than %d levels deep", maxCalls)
	errOutput = fmt.Errorf("the template makes a text of more than %d MiB or a list of more than %d elements", maxOutput>>20, maxOutput/itemCost)
)

type render struct {
	t         *Template
	done      context.Context // nil if nobody can stop the rendering
	now       time.Time
	ctx       []Value // the context's variables, in the order of t.names
	out       []byte  // the text written so far; a block that captures text appends to it and then removes the captured part
	at        int     // offset of the current operation, for errors
	budget    int     // remaining part of maxBudget
	look      int     // remaining budget at which done is looked at next
	maxOutput int     // maximum bytes of a text or list
	calls     int     // current levels of nested macro calls
	depth     int     // current depth in a value that is being printed or compared
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
	*r = render{t: t, now: now, ctx: vars, out: out, budget: maxBudget, look: maxBudget - pace, maxOutput: maxOutput}
	return r
}

// release lets later renderings reuse the memory of r, unless it has grown large.
func (r *render) release() {
	if cap(r.out) > 1<<20 {
		r.out = nil
	}
	clear(r.ctx)
	r.t, r.done = nil, nil
	renders.Put(r)
}

func (r *render) step() { r.spend(stepCost) }

func (r *render) spend(cost int) {
	r.budget -= cost
	if r.budget < 0 {
		failWith(errBudget)
	}
	if r.budget < r.look {
		r.look = r.budget - pace
		if r.done != nil {
			if err := r.done.Err(); err != nil {
				failWith(err)
			}
		}
	}
}

// room is called before a string of n*size bytes is made. It fails if the string is too large, and
// subtracts its cost from the budget.
func (r *render) room(size, n int) {
	if size > 0 && n > r.maxOutput/size {
		failWith(errOutput)
	}
	r.spend(size * max(n, 0))
}

// list is called before a list of n elements is made. It fails if the list is too large, and
// subtracts its cost from the budget.
func (r *render) list(n int) {
	if n > r.maxOutput/itemCost {
		failWith(errOutput)
	}
	r.spend(n * itemCost)
}

func (r *render) fits(n int) {
	if n > r.maxOutput {
		failWith(errOutput)
	}
}

// nest is called before an element of a value is printed or compared, and unnest afterwards. nest
// fails if values are nested too deeply.
func (r *render) nest() {
	if r.depth >= maxDepth {
		failWith(errDepth)
	}
	r.depth++
	r.step()
}

func (r *render) unnest() { r.depth-- }
