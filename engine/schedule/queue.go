package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/cache"
)

const (
	// maxScan is the number of waiting sequences that are searched for one that shares pages with those in the cache.
	maxScan = 256
	// maxSkips is how often other sequences may be admitted before a sequence out of order.
	maxSkips = 64
)

// queue is the sequences of a scheduler, and the pages that they share. It decides which sequences run, and which rows each has
// in a step.
type queue struct {
	Options
	pool        *cache.Pool
	waiting     []*sequence // in order of arrival
	running     []*sequence // in order of admission
	ended       []*call     // requests whose callers have to be notified
	preemptions uint64
}

// admit admits waiting sequences in order of arrival, except that those whose prompt begins with pages in the cache go first,
// so that a shared prefix is used while it is there.
func (q *queue) admit() {
	for len(q.waiting) > 0 && len(q.running) < q.MaxSequences {
		i := q.choose()
		s := q.waiting[i]
		// All its tokens have to fit in addition to the running sequences' next ones. An idle engine has room for any.
		if len(q.running) > 0 && q.pool.Needed(s.Length()+1)+len(q.running) > q.pool.Available() {
			return
		}
		for _, skipped := range q.waiting[:i] {
			skipped.skips++
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		s.admit(q.pool.NewTable())
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		q.running = append(q.running, s)
	}
}

// choose is the index of the waiting sequence that is next.
func (q *queue) choose() int {
	first := q.waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range q.waiting[:min(len(q.waiting), maxScan)] {
		if q.pool.HasPrefix(s.Tokens) {
			return i
		}
	}
	return 0
}

// sweep releases sequences that have ended, and all those of requests that have failed or were cancelled. Stale ones wait at the
// head of the queue to be computed again.
func (q *queue) sweep() {
	q.running = q.retain(q.running)
	q.waiting = q.retain(q.waiting)
	for i := len(q.running) - 1; i >= 0; i-- {
		if s := q.running[i]; s.stale {
			s.preempt()
			q.running = slices.Delete(q.running, i, i+1)
			q.waiting = slices.Insert(q.waiting, 0, s)
		}
	}
}

// discard takes the pages of a sequence, whose content may be wrong, out of the cache, with all that was computed from them.
// Running sequences that hold one of these pages become stale, and so does the sequence itself.
func (q *queue) discard(s *sequence) {
	s.Table.Discard()
	s.stale = true
	for _, other := range q.running {
		other.stale = other.stale || other.Table.HoldsDiscarded()
	}
}

// retain returns the sequences that go on, and releases the others.
func (q *queue) retain(seqs []*sequence) []*sequence {
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
			q.ended = append(q.ended, c)
		}
	}
	clear(seqs[len(retained):])
	return retained
}
