package schedule

import (
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/draft"
	"github.com/ingot-run/ingot/engine/model"
)

type planner struct {
	limits       model.Limits
	costs        *cost.Steps
	speculator   *draft.Speculator // nil to draft nothing
	stepTime     time.Duration
	maxInFlight  int // number of steps that a run has at least, if nothing ends it
	maxSequences int
	prefillChunk int
	noSharing    bool
	pool         *cache.Pool
	states       *states // recurrent states; nil if the model has none

	waiting     []*sequence // in order of arrival, interactive ones first
	running     []*sequence // in order of admission
	ended       []*request  // publish notifies their callers
	preemptions uint64
	turns       uint64 // number of times that a request was queued, or got or lost a slot
	stops       stopRate
	successions successions
	arrivals    arrivals
	needs       []need      // working memory of fits
	victimList  []*sequence // working memory of victims

	size             cost.Size   // size of the planned step
	prompts          []*sequence // running sequences whose prompts are not computed yet, for the planned step
	turn             uint        // number of steps with several prompts
	interactiveSteps uint        // number of successive steps with prompts of interactive sequences
	stepsSinceChunk  int         // number of steps since the last step with prompt rows
}

func newPlanner(o *Options) planner {
	return planner{
		limits: o.Limits, costs: o.Steps, speculator: o.Speculator, stepTime: o.StepTime, maxInFlight: o.MaxInFlight,
		maxSequences: o.MaxSequences, prefillChunk: o.PrefillChunk, noSharing: o.NoSharing,
		states: newStates(o),
		pool:   cache.NewPool(o.Limits.Pages, o.Limits.PageSize, Groups(o.Model.Config(), o.Limits)),
	}
}

// sweep releases sequences that have ended, and all sequences of requests that have failed or were
// cancelled. Stale sequences, which had pages that were discarded, return to the head of the queue
// and are computed again.
func (p *planner) sweep() {
	p.running = p.retain(p.running)
	p.waiting = p.retain(p.waiting)
	for i := len(p.running) - 1; i >= 0; i-- {
		if s := p.running[i]; s.stale {
			p.states.release(s)
			s.preempt()
			p.running = slices.Delete(p.running, i, i+1)
			p.requeue(s)
		}
	}
}

// successions tracks whether sequences that end are soon followed by others, as when a program
// sends a file's rows one after another and none waits in the queue.
type successions struct {
	ended int  // number of sequences that have ended and were not followed by another one
	some  bool // a sequence was followed by another one since the engine was idle
}

// maxUnfollowed is the number of sequences, as a share of the running ones, that may have ended
// without being followed: 1 in maxUnfollowed.
const maxUnfollowed = 8

// admit records that a sequence was admitted. running is the number of sequences that ran before.
func (s *successions) admit(running int) {
	switch {
	case running == 0:
		*s = successions{}
	case s.ended > 0:
		s.ended, s.some = s.ended-1, true
	}
}

// follow reports whether the sequences that end next are expected to be followed by others.
func (s *successions) follow(running int) bool { return s.some && maxUnfollowed*s.ended <= running }

// discard removes a sequence's pages from the cache because their content may be wrong, together
// with all pages that were computed from them. Running sequences that hold one of these pages
// become stale, and so does the sequence itself.
func (p *planner) discard(s *sequence) {
	s.table.Discard(s.tokens)
	s.stale = true
	p.states.discard(p.running)
	for _, other := range p.running {
		other.stale = other.stale || other.table.HoldsDiscarded()
	}
}

// retain returns the sequences that continue. It releases the pages of the others, and collects the
// requests whose last sequence ended.
func (p *planner) retain(seqs []*sequence) []*sequence {
	retained := seqs[:0]
	for _, s := range seqs {
		r := s.request
		if s.reason == "" {
			r.fail(r.ctx.Err())
		}
		if !s.ended() {
			retained = append(retained, s)
			continue
		}
		if s.table != nil {
			p.states.release(s)
			s.release()
			p.taken(r)
			p.successions.ended++
		}
		if r.open--; r.open == 0 {
			p.ended = append(p.ended, r)
		}
	}
	clear(seqs[len(retained):])
	return retained
}
