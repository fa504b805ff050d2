package engine

import "time"

// admit gives waiting sequences a place, in order of arrival. The first that finds no room keeps those behind it waiting,
// so that none starves. An empty engine has room for any.
func (l *loop) admit() {
	n := 0
	for _, s := range l.waiting {
		if len(l.running) == l.opts.MaxSequences {
			break
		}
		if s.table = l.pool.Reserve(s.call.limit); s.table == nil {
			break
		}
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		l.running = append(l.running, s)
		n++
	}
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
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
