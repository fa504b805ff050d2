package tokenizer

import "context"

// pacer looks at a context once in many steps of work.
type pacer struct {
	ctx   context.Context
	steps int
	err   error // the context's, once it was found done
}

// paced is the number of steps between two looks at the context: some 100 us of merging.
const paced = 1 << 12

// stop counts a step, and reports whether the work has to end.
func (p *pacer) stop() bool {
	if p.steps++; p.steps%paced == 0 && p.err == nil {
		p.err = p.ctx.Err()
	}
	return p.err != nil
}
