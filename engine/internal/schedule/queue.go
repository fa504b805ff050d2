package schedule

import (
	"slices"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
)

// queue has the sequences of a scheduler and the pages that they share. It decides which sequences run, and which rows each has in a
// step.
type queue struct {
	Options
	pool        *cache.Pool
	waiting     []*sequence // in order of arrival, interactive ones first
	running     []*sequence // in order of admission
	ended       []*call     // requests that have ended; publish notifies their callers
	preemptions uint64
	stops       stopRate

	needs []need // working memory of fits

	size    cost.Size   // size of the planned step
	prompts []*sequence // running sequences whose prompts are not computed yet, for the planned step
	turn    uint        // number of steps with several prompts
	hurried uint        // number of successive steps with prompts of interactive sequences
	people  people
}

// sweep releases sequences that have ended, and all sequences of requests that have failed or were cancelled. Stale sequences, which had
// pages that were discarded, return to the head of the queue and are computed again.
func (q *queue) sweep() {
	q.running = q.retain(q.running)
	q.waiting = q.retain(q.waiting)
	for i := len(q.running) - 1; i >= 0; i-- {
		if s := q.running[i]; s.stale {
			s.preempt()
			q.running = slices.Delete(q.running, i, i+1)
			q.requeue(s)
		}
	}
}

// discard removes a sequence's pages from the cache because their content may be wrong, together with all pages that were computed from
// them. Running sequences that hold one of these pages become stale, and so does the sequence itself.
func (q *queue) discard(s *sequence) {
	s.Table.Discard(s.Tokens)
	s.stale = true
	for _, other := range q.running {
		other.stale = other.stale || other.Table.HoldsDiscarded()
	}
}

// retain returns the sequences that continue. It releases the pages of the others, and collects the requests whose last sequence ended.
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
