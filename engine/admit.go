package engine

import (
	"slices"
	"time"
)

const (
	// lookAhead is how many waiting sequences are looked at for one that shares pages with those in the cache.
	lookAhead = 256
	// patience is how often a sequence lets others go first for that.
	patience = 64
)

// admit gives waiting sequences a place: in order of arrival, but that those whose prompt begins with pages in the cache go
// first, so that a shared prefix is used while it is there.
func (l *loop) admit() {
	for len(l.waiting) > 0 && len(l.running) < l.opts.MaxSequences {
		i := l.choose()
		s := l.waiting[i]
		// All it has so far has to fit beside the running ones' next tokens. An empty engine has room for any.
		if len(l.running) > 0 && l.pool.Needed(s.length()+1)+len(l.running) > l.pool.Available() {
			return
		}
		for _, passed := range l.waiting[:i] {
			passed.passed++
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		s.table = l.pool.NewTable()
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		l.running = append(l.running, s)
	}
}

// choose is the index of the waiting sequence that is next.
func (l *loop) choose() int {
	first := l.waiting[0]
	if first.passed >= patience || first.again {
		return 0
	}
	for i, s := range l.waiting[:min(len(l.waiting), lookAhead)] {
		if l.pool.Knows(s.tokens) {
			return i
		}
	}
	return 0
}

// sweep lets go of sequences that have ended, and of all those of calls that have failed or were cancelled.
func (l *loop) sweep() {
	l.running = l.keep(l.running)
	l.waiting = l.keep(l.waiting)
}

// publish shows the state between two steps, and then tells the callers of calls that have ended.
func (l *loop) publish() {
	l.meter.update(func(s *Snapshot) {
		s.Running, s.Waiting = len(l.running), len(l.waiting)
		s.PagesUsed = l.pool.Used()
		s.PutBacks = l.putBacks
	})
	for i, c := range l.ended {
		close(c.done)
		l.ended[i] = nil
	}
	l.ended = l.ended[:0]
}

// keep returns the sequences that go on, and releases the others.
func (l *loop) keep(seqs []*sequence) []*sequence {
	kept := seqs[:0]
	for _, s := range seqs {
		c := s.call
		if s.reason == "" && c.err == nil {
			c.err = c.ctx.Err()
		}
		if s.reason == "" && c.err == nil {
			kept = append(kept, s)
			continue
		}
		if s.table != nil {
			s.table.Release()
		}
		if c.open--; c.open == 0 {
			l.ended = append(l.ended, c)
		}
	}
	clear(seqs[len(kept):])
	return kept
}

// fail fails the calls of sequences.
func fail(seqs []*sequence, err error) {
	for _, s := range seqs {
		s.call.fail(err)
	}
}

// fail ends the call with an error; the first counts.
func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}
