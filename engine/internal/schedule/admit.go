package schedule

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/ingot-run/ingot/engine/internal/cache"
)

const (
	// maxScan is the maximum number of waiting sequences that are searched for one whose prompt
	// begins with tokens in the cache.
	maxScan = 256
	// maxSkips is the number of times that a waiting sequence may be overtaken by later ones.
	maxSkips = 64
)

// enqueue appends the sequences of a request, at least one, to the waiting sequences of their
// class. Interactive sequences are in front of batch sequences.
func (p *planner) enqueue(seqs []*sequence) {
	p.taken(seqs[0].request)
	p.states.count(seqs, p.pool)
	i := len(p.waiting)
	if seqs[0].request.interactive {
		i = p.interactiveWaiting()
	}
	p.waiting = slices.Insert(p.waiting, i, seqs...)
}

func (p *planner) requeue(s *sequence) {
	i := 0
	if !s.request.interactive {
		i = p.interactiveWaiting()
	}
	p.waiting = slices.Insert(p.waiting, i, s)
}

// taken records that a request was queued, or got or lost a slot.
func (p *planner) taken(r *request) {
	p.turns++
	r.turn = p.turns
}

// interactiveWaiting returns the number of waiting interactive sequences. They are at the head of
// the queue.
func (p *planner) interactiveWaiting() int {
	return sort.Search(len(p.waiting), func(i int) bool { return !p.waiting[i].request.interactive })
}

// admit admits waiting sequences: interactive ones first, batch ones in order of arrival. Requests
// share the slots for interactive sequences: the next slot is for the request that has the fewest,
// whatever its number of choices. Batch sequences whose prompt begins with pages in the cache go
// before other batch sequences, so that a shared prefix is used before it is evicted. A sequence is
// admitted if fewer than MaxSequences sequences run, and the pages are expected to suffice for it
// and for all running sequences until they end. An idle engine admits any sequence. To make room
// for an interactive sequence, others are preempted: see victims.
func (p *planner) admit() {
	for len(p.waiting) > 0 {
		i, preempt, ok := p.next()
		if !ok {
			return
		}
		s := p.waiting[i]
		p.skip(i)
		p.waiting = slices.Delete(p.waiting, i, i+1)
		for _, v := range p.victimList[:preempt] {
			p.preempt(slices.Index(p.running, v))
		}
		s.admit(p.pool.NewTable())
		p.states.admit(s)
		p.taken(s.request)
		if f := &s.request.figures; f.admitted.IsZero() {
			f.admitted = time.Now()
		}
		p.successions.admit(len(p.running))
		p.running = append(p.running, s)
		p.adoptPages(s) // at once, because the pages could be evicted before the sequence's first step
		if s.request.interactive {
			p.arrivals.add(p.costs.Seconds(s.span(s.left())))
		}
	}
}

// skip counts how often batch sequences are overtaken: those before waiting sequence i, which is
// admitted, or the first one if sequence i is interactive.
func (p *planner) skip(i int) {
	n := p.interactiveWaiting()
	overtaken := p.waiting[n:max(n, i)]
	if i < n && n < len(p.waiting) {
		overtaken = p.waiting[n : n+1]
	}
	for _, s := range overtaken {
		s.skips++
	}
}

// next returns the index of the waiting sequence to admit, and how many of the victims to preempt
// for it. ok is false if there is no room. Interactive sequences go first, with one exception: a
// batch sequence that was overtaken maxSkips times goes before them as soon as it fits.
func (p *planner) next() (i, preempt int, ok bool) {
	p.victimList = p.victimList[:0]
	n := p.interactiveWaiting()
	if n > 0 && n < len(p.waiting) && !p.waiting[n].yields() && p.fits(p.waiting[n], 0) {
		return n, 0, true
	}
	if n == 0 {
		i = p.choose()
		return i, 0, p.fits(p.waiting[i], 0)
	}
	i = firstTurn(p.waiting[:n])
	if p.fits(p.waiting[i], 0) {
		return i, 0, true
	}
	p.victims(p.waiting[i])
	for preempt = 1; preempt <= len(p.victimList); preempt++ {
		if p.fits(p.waiting[i], preempt) {
			return i, preempt, true
		}
	}
	return i, 0, false
}

// firstTurn returns the index of the interactive sequence whose turn it is: the first one of the
// request that has the fewest running sequences and, of several such requests, of the one that has
// waited for longest since it was queued, or got or lost a slot.
func firstTurn(waiting []*sequence) (first int) {
	for i, s := range waiting {
		a, b := s.request, waiting[first].request
		if a != b && cmp.Or(cmp.Compare(a.running, b.running), cmp.Compare(a.turn, b.turn)) < 0 {
			first = i
		}
	}
	return first
}

// victims lists the running sequences that may be preempted for a waiting interactive sequence, in
// the order in which this happens: batch sequences that yield, youngest first, and then, if no
// other choice of its request runs, the choices of requests that have several, from the request
// that has the most. Each request keeps its oldest choice.
func (p *planner) victims(s *sequence) {
	p.victimList = p.victimList[:0]
	for _, r := range p.running {
		r.rank, r.victim = r.request.ranked, len(p.running)
		r.request.ranked++
	}
	for _, r := range slices.Backward(p.running) {
		r.request.ranked = 0
		if r.yields() || s.request.running == 0 && r.request.interactive && r.rank > 0 {
			p.victimList = append(p.victimList, r)
		}
	}
	slices.SortStableFunc(p.victimList, func(a, b *sequence) int {
		if c := cmp.Compare(a.urgency(), b.urgency()); c != 0 || a.urgency() == 0 {
			return c
		}
		return cmp.Compare(b.rank, a.rank)
	})
	for i, v := range p.victimList {
		v.victim = i
	}
}

// yields reports whether interactive sequences may overtake or preempt a sequence: not after
// maxSkips times.
func (s *sequence) yields() bool { return !s.request.interactive && s.skips < maxSkips }

// youngest returns the index of the running sequence to preempt when pages run out: the last
// admitted one, if possible one that yields, or else one of several choices of a request.
func (p *planner) youngest() int {
	for i, s := range slices.Backward(p.running) {
		if s.yields() {
			return i
		}
	}
	for i, s := range slices.Backward(p.running) {
		if s.request.interactive && s.request.running > 1 {
			return i
		}
	}
	return len(p.running) - 1
}

// preempt returns running sequence i to the waiting ones and frees its pages. Its known tokens are
// computed again later.
func (p *planner) preempt(i int) {
	s := p.running[i]
	p.states.release(s)
	s.preempt()
	p.running = slices.Delete(p.running, i, i+1)
	p.requeue(s)
	p.taken(s.request)
	p.preemptions++
}

type need struct {
	steps int // number of steps until it ends
	now   int // number of positions for which it needs pages at present
	// windowed is the number of positions for which it needs pages at present in each sliding group
	// of layers.
	windowed int
	has      int // number of pages that it has, or can share with running sequences
	frees    int // number of pages that it computed itself, which become free when it ends
}

// fits reports whether a waiting sequence could be admitted, within MaxSequences and with enough
// pages, if the given number of victims were preempted. Every sequence grows by one
// position per step and frees its pages when it ends. Pages are therefore scarcest just before a
// sequence ends, and fits checks these moments.
func (p *planner) fits(s *sequence, preempt int) bool {
	left := len(p.running) - preempt
	if left >= p.maxSequences {
		return false
	}
	if left == 0 {
		return true
	}
	groups, size, available := p.pool.Groups(), p.pool.PageSize(), p.pool.Available()
	room := groups.WindowRoom(size)
	p.needs = append(p.needs[:0], need{steps: p.steps(s), now: s.length(), windowed: min(s.length(), room), has: p.held(s)})
	for _, r := range slices.Backward(p.running) {
		pages := r.table.Held()
		if r.victim < preempt {
			available += pages - r.table.Adopted()
			continue
		}
		p.needs = append(p.needs, need{p.steps(r), r.length(), min(r.length(), room), pages, pages - r.table.Adopted()})
	}
	slices.SortFunc(p.needs, func(a, b need) int { return cmp.Compare(a.steps, b.steps) })
	positions, windowed, has := 0, 0, 0 // sums over the sequences that have not ended
	for _, n := range p.needs {
		positions, windowed, has = positions+n.now, windowed+n.windowed, has+n.has
	}
	chunk := p.chunkPages(s, groups) // counted only until the first sequence ends: pages before the windows are free by then
	for i, n := range p.needs {
		left := len(p.needs) - i
		if chunk+groups.Together(left, positions+left*n.steps, windowed+left*n.steps, p.limits.Context, size)-has > available {
			return false
		}
		positions, windowed, has, available, chunk = positions-n.now, windowed-n.windowed, has-n.has, available+n.frees, 0
	}
	return true
}

// chunkPages returns how many pages prompts need at most in one step, the waiting prompt included,
// in addition to what they need while they generate: those for rows of sliding groups that are
// still computed while the window before the first of them is needed.
func (p *planner) chunkPages(s *sequence, groups cache.Groups) int {
	size := p.pool.PageSize()
	pages, rows, prompts := 0, 0, 0
	add := func(q *sequence) {
		chunk := min(p.prefillChunk, q.left())
		pages += groups.Pages(q.length(), chunk, size) - groups.Pages(q.length(), 1, size)
		rows, prompts = rows+chunk, prompts+1
	}
	add(s)
	for _, r := range p.running {
		if !r.decodes() {
			add(r)
		}
	}
	return min(pages, groups.Sliding*(min(rows, p.limits.Rows)/size+prompts))
}

// steps returns the number of tokens that a sequence is expected to generate before it ends. The
// expected length of an answer is the mean length of recent answers. A sequence is always expected
// to generate at least half of this mean, unless its limit is lower.
func (p *planner) steps(s *sequence) int {
	if s.request.promptOnly {
		return 0
	}
	mean := p.stops.length()
	return min(max(mean-len(s.answer()), (mean+1)/2), s.request.limit-s.length())
}

// held returns the number of pages that a waiting sequence would share with running ones. It hashes
// the sequence's tokens only once.
func (p *planner) held(s *sequence) int {
	if p.computesAll(s) {
		return 0
	}
	if p.states != nil {
		position, _ := p.states.best(s, len(s.request.prompt), p.pool)
		return p.pool.Held(s.state.keys[:position/p.pool.PageSize()])
	}
	if s.prefix == nil {
		s.prefix = p.pool.Prefix(s.tokens)
	}
	return p.pool.Held(s.prefix)
}

// choose returns the index of the sequence to admit next if only batch sequences wait. This is the
// first one whose prompt begins with pages in the cache or, if there is none among the first
// maxScan sequences, the first of all. A first sequence that was skipped maxSkips times, or
// preempted, is always chosen.
func (p *planner) choose() int {
	first := p.waiting[0]
	if first.skips >= maxSkips || first.recomputed {
		return 0
	}
	for i, s := range p.waiting[:min(len(p.waiting), maxScan)] {
		if s.head == nil {
			s.head = p.pool.Prefix(s.tokens[:min(s.length(), p.pool.PageSize()+1)])
		}
		if p.pool.HasPrefix(s.head) {
			return i
		}
	}
	return 0
}
