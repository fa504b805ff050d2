package tokenizer

import "context"

// pacer stops long work when a context is done. It counts the steps of the work. The constant paced
// is the number of steps between two checks of the context.
type pacer struct {
	ctx   context.Context
	steps int
	err   error // the context's error; nil until a check finds the context done
}

// paced is the number of steps between two checks of the context. This number of merge steps takes
// about 100 µs.
const paced = 1 << 12

func (p *pacer) stop() bool {
	if p.steps++; p.steps%paced == 0 && p.err == nil {
		p.err = p.ctx.Err()
	}
	return p.err != nil
}
