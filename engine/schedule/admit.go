package schedule

import (
	"slices"
	"time"
)

const (
	// maxScan is the number of waiting sequences that are searched for one that shares pages with those in the cache.
	maxScan = 256
	// maxSkips is how often other sequences may be admitted before a sequence out of order.
	maxSkips = 64
)

// admit admits waiting sequences in order of arrival, except that those whose prompt begins with pages in the cache go first,
// so that a shared prefix is used while it is there.
func (l *loop) admit() {
	for len(l.waiting) > 0 && len(l.running) < l.MaxSequences {
		i := l.choose()
		s := l.waiting[i]
		// All its tokens have to fit in addition to the running sequences' next ones. An idle engine has room for any.
		if len(l.running) > 0 && l.pool.Needed(s.Length()+1)+len(l.running) > l.pool.Available() {
			return
		}
		for _, skipped := range l.waiting[:i] {
			skipped.skips++
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		s.Table = l.pool.NewTable()
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		l.running = append(l.running, s)
	}
}

// choose is the index of the waiting sequence that is next.
func (l *loop) choose() int {
	first := l.waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range l.waiting[:min(len(l.waiting), maxScan)] {
		if l.pool.HasPrefix(s.Tokens) {
			return i
		}
	}
	return 0
}

// sweep releases sequences that have ended, and all those of calls that have failed or were cancelled.
func (l *loop) sweep() {
	l.running = l.retain(l.running)
	l.waiting = l.retain(l.waiting)
}

// retain returns the sequences that go on, and releases the others.
func (l *loop) retain(seqs []*sequence) []*sequence {
	retained := seqs[:0]
	for _, s := range seqs {
		c := s.call
		if s.reason == "" && c.err == nil {
			c.err = c.ctx.Err()
		}
		if !s.ended() {
			retained = append(retained, s)
			continue
		}
		if s.Table != nil {
			s.Table.Release()
		}
		if c.open--; c.open == 0 {
			l.ended = append(l.ended, c)
		}
	}
	clear(seqs[len(retained):])
	return retained
}

// publish updates the snapshot between two steps, and then notifies the callers of calls that have ended.
func (l *loop) publish() {
	l.meter.update(func(s *Snapshot) {
		s.Running, s.Waiting = len(l.running), len(l.waiting)
		s.PagesUsed = l.pool.Used()
		s.Preemptions = l.preemptions
	})
	for i, c := range l.ended {
		close(c.done)
		l.ended[i] = nil
	}
	l.ended = l.ended[:0]
}
