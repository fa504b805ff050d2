package tokenizer

import "context"

// pacer counts steps of work and checks a context once in many steps.
type pacer struct {
	ctx   context.Context
	steps int
	err   error // the context's error, after the context was found done
}

// paced is the number of steps between two checks of the context. Merging takes about 100 us for this many.
const paced = 1 << 12

// stop counts a step, and reports whether the work has to end.
func (p *pacer) stop() bool {
	if p.steps++; p.steps%paced == 0 && p.err == nil {
		p.err = p.ctx.Err()
	}
	return p.err != nil
}
