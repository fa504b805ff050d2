package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/internal/cache"
)

const (
	// maxScan is the maximum number of waiting sequences that are searched for one whose prompt begins with tokens in the cache.
	maxScan = 256
	// maxSkips is the number of times that a waiting sequence may be overtaken by later ones.
	maxSkips = 64
)

// enqueue appends sequences to the waiting sequences of their class: interactive or batch. All interactive sequences are in front of the
// batch sequences.
func (q *queue) enqueue(seqs []*sequence) {
	for _, s := range seqs {
		i := len(q.waiting)
		if s.call.interactive {
			i = q.interactiveWaiting()
		}
		q.waiting = slices.Insert(q.waiting, i, s)
	}
}

// requeue returns a preempted sequence to the waiting sequences, at the head of its class.
func (q *queue) requeue(s *sequence) {
	i := 0
	if !s.call.interactive {
		i = q.interactiveWaiting()
	}
	q.waiting = slices.Insert(q.waiting, i, s)
}

// interactiveWaiting returns the number of waiting interactive sequences. They are at the head of the queue.
func (q *queue) interactiveWaiting() int {
	n := slices.IndexFunc(q.waiting, func(s *sequence) bool { return !s.call.interactive })
	if n < 0 {
		return len(q.waiting)
	}
	return n
}

// admit admits waiting sequences in order of arrival, interactive ones first. Within a class, sequences whose prompt begins with pages in
// the cache go first, so that a shared prefix is used before it is evicted. A sequence is admitted if fewer than MaxSequences sequences
// run, and the pages are expected to suffice for it and for all running sequences until they end. An idle engine admits any sequence. Batch
// sequences are preempted to make room for an interactive one.
func (q *queue) admit() {
	for len(q.waiting) > 0 {
		i, preempt, ok := q.next()
		if !ok {
			return
		}
		s := q.waiting[i]
		for _, skipped := range q.waiting[:i] {
			skipped.skips++
		}
		if n := q.interactiveWaiting(); i < n && n < len(q.waiting) {
			q.waiting[n].skips++
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		for range preempt {
			q.preempt(q.youngest())
		}
		s.admit(q.pool.NewTable())
		if f := &s.call.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		q.running = append(q.running, s)
		q.adoptPages(s) // at once, because the pages could be evicted before the sequence's first step
		if s.call.interactive {
			q.people.arrived(q.Steps.Seconds(s.span(s.left())))
		}
	}
}

// next returns the index of the waiting sequence to admit, and the number of running sequences to preempt for it. ok is false if there is
// no room. Interactive sequences go first, with one exception: a batch sequence that was overtaken maxSkips times goes before them as soon
// as it fits.
func (q *queue) next() (i, preempt int, ok bool) {
	n := q.interactiveWaiting()
	if n > 0 && n < len(q.waiting) && !q.waiting[n].yields() && q.fits(q.waiting[n], 0) {
		return n, 0, true
	}
	if n == 0 {
		i = q.choose(q.waiting)
		return i, 0, q.fits(q.waiting[i], 0)
	}
	i = q.choose(q.waiting[:n])
	for preempt <= q.yielding() {
		if q.fits(q.waiting[i], preempt) {
			return i, preempt, true
		}
		preempt++
	}
	return i, 0, false
}

// yields reports whether interactive sequences may overtake a waiting sequence or preempt a running one. A sequence that was overtaken
// maxSkips times no longer yields.
func (s *sequence) yields() bool { return !s.call.interactive && s.skips < maxSkips }

// yielding returns the number of running sequences that may be preempted for an interactive one.
func (q *queue) yielding() (n int) {
	for _, s := range q.running {
		if s.yields() {
			n++
		}
	}
	return n
}

// youngest returns the index of the running sequence to preempt next: the last admitted one that yields or, if none yields, the last
// admitted one.
func (q *queue) youngest() int {
	for i := len(q.running) - 1; i >= 0; i-- {
		if q.running[i].yields() {
			return i
		}
	}
	return len(q.running) - 1
}

// preempt stops running sequence i, frees its pages and requeues it. When the sequence is admitted again, its known tokens are computed
// again.
func (q *queue) preempt(i int) {
	s := q.running[i]
	s.preempt()
	q.running = slices.Delete(q.running, i, i+1)
	q.requeue(s)
	q.preemptions++
}

// need has the steps and pages that a sequence is expected to need until it ends.
type need struct {
	steps int // number of steps until it ends
	now   int // number of positions for which it needs pages at present
	// windowed is the number of positions for which it needs pages at present in each sliding group of layers.
	windowed int
	has      int // number of pages that it has, or can share with running sequences
	frees    int // number of pages that it computed itself, which become free when it ends
}

// fits reports whether a waiting sequence could be admitted, within MaxSequences and with enough pages, if the given number of running
// sequences were preempted. Every sequence grows by one position per step and frees its pages when it ends. Pages are therefore scarcest
// just before a sequence ends, and fits checks these moments.
func (q *queue) fits(s *sequence, preempt int) bool {
	left := len(q.running) - preempt
	if left >= q.MaxSequences {
		return false
	}
	if left == 0 {
		return true
	}
	groups, size, available := q.pool.Groups(), q.pool.PageSize(), q.pool.Available()
	room := groups.WindowRoom(size)
	q.needs = append(q.needs[:0], need{steps: q.steps(s), now: s.Length(), windowed: min(s.Length(), room), has: q.held(s)})
	for _, r := range slices.Backward(q.running) {
		pages := r.Table.Held()
		if preempt > 0 && r.yields() {
			preempt--
			available += pages - r.Table.Adopted()
			continue
		}
		q.needs = append(q.needs, need{q.steps(r), r.Length(), min(r.Length(), room), pages, pages - r.Table.Adopted()})
	}
	slices.SortFunc(q.needs, func(a, b need) int { return cmp.Compare(a.steps, b.steps) })
	positions, windowed, has := 0, 0, 0 // sums over the sequences that have not ended
	for _, n := range q.needs {
		positions, windowed, has = positions+n.now, windowed+n.windowed, has+n.has
	}
	chunk := q.chunkPages(s, groups) // counted only until the first sequence ends: pages before the windows are free by then
	for i, n := range q.needs {
		left := len(q.needs) - i
		if chunk+groups.Together(left, positions+left*n.steps, windowed+left*n.steps, q.Limits.Context, size)-has > available {
			return false
		}
		positions, windowed, has, available, chunk = positions-n.now, windowed-n.windowed, has-n.has, available+n.frees, 0
	}
	return true
}

// chunkPages returns the maximum number of pages that the rows of prompts need in sliding groups in one step. The prompt of the waiting
// sequence s counts too.
func (q *queue) chunkPages(s *sequence, groups cache.Groups) int {
	if groups.Sliding == 0 {
		return 0
	}
	rows, prompts := min(q.PrefillChunk, s.left()), 1
	for _, r := range q.running {
		if !r.decodes() {
			rows, prompts = rows+min(q.PrefillChunk, r.left()), prompts+1
		}
	}
	return groups.Sliding * (min(rows, q.Limits.Rows)/q.pool.PageSize() + prompts)
}

// steps returns the number of tokens that a sequence is expected to generate before it ends. The expected length of an answer is the mean
// length of recent answers. A sequence is always expected to generate at least half of this mean, unless its limit is lower.
func (q *queue) steps(s *sequence) int {
	if s.call.promptOnly {
		return 0
	}
	mean := q.stops.length()
	return min(max(mean-len(s.answer()), (mean+1)/2), s.call.limit-s.Length())
}

// held returns the number of pages that a waiting sequence would share with running ones. It hashes the sequence's tokens only once.
func (q *queue) held(s *sequence) int {
	if q.computesAll(s) {
		return 0
	}
	if s.prefix == nil {
		s.prefix = q.pool.Prefix(s.Tokens)
	}
	return q.pool.Held(s.prefix)
}

// choose returns the index of the sequence to admit next among waiting sequences of one class. This is the first one whose prompt begins
// with pages in the cache or, if there is none among the first maxScan sequences, the first of all. A first sequence that was skipped
// maxSkips times, or preempted, is always chosen.
func (q *queue) choose(waiting []*sequence) int {
	first := waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range waiting[:min(len(waiting), maxScan)] {
		if s.head == nil {
			s.head = q.pool.Prefix(s.Tokens[:min(s.Length(), q.pool.PageSize()+1)])
		}
		if q.pool.HasPrefix(s.head) {
			return i
		}
	}
	return 0
}
