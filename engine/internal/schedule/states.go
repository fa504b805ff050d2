package schedule

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cache"
)

// states manages the recurrent states of a model: which slot each running sequence has, and
// snapshots, which are states after the beginnings of prompts. A sequence whose prompt begins in
// the same way continues a copy of a snapshot. A page of the cache is of no use to it without a
// state.
//
// Rows of a prompt begin on the grid of chunks: see
// compute.SeqState. Snapshots are therefore taken there, at positions where pages end, too. A
// sequence takes one where its prompt stops being the beginning of as many prompts as before: at
// the end of what all rows of a file have in common, and at the end of what a group of them has.
// Sequences with such a prompt wait for the snapshot instead of computing the same positions.
//
// A nil *states is that of a model without recurrent layers.
type states struct {
	grid      int // positions between two places for snapshots: a multiple of the page size and of compute.ChunkRows
	pageSize  int
	drafts    int   // maximum number of drafts of a sequence in a step
	free      []int // slots without a state
	maxCopies int   // maximum number of snapshots
	copies    map[cache.Key]*snapshot
	pending   map[cache.Key]*sequence // snapshots that running sequences will take
	clock     uint64

	// The numbers of prompts that began with the tokens of a key. Old counts are forgotten: once
	// recent is full, it becomes older.
	recent, older map[cache.Key]int
}

// maxCounted is the maximum number of keys in states.recent.
const maxCounted = 1 << 16

// snapshot is a state after the beginning of a prompt.
type snapshot struct {
	slot      int
	users     int    // sequences that will continue a copy in their next step
	used      uint64 // states.clock when it was used last
	discarded bool   // it may be wrong; its slot becomes free when no sequence continues it
}

// seqState is the recurrent state of a sequence.
type seqState struct {
	slot     int          // slot of the state, while the sequence runs
	from     int          // slot that the next step continues; -1 to begin at position 0
	copied   *snapshot    // the snapshot whose slot is from; nil for none
	accepted int          // drafts of the last step that belong to the sequence
	keys     cache.Prefix // of the prompt's pages
	places   []gridPoint  // where the prompt can take or continue a snapshot, ascending
}

// gridPoint is a position of the grid in a prompt, and the key of the tokens before it.
type gridPoint struct {
	position int
	key      cache.Key
}

// newStates returns the states of a model with recurrent layers, and nil for other models. Of all
// slots, each of the sequences can have one; snapshots get the others.
func newStates(o *Options) *states {
	if o.Model.Config().States.Layers == 0 {
		return nil
	}
	st := &states{
		grid: Grid(o.Limits.PageSize), pageSize: o.Limits.PageSize, drafts: o.Limits.Drafts,
		maxCopies: o.Limits.States - o.MaxSequences,
		copies:    map[cache.Key]*snapshot{}, pending: map[cache.Key]*sequence{},
		recent: map[cache.Key]int{}, older: map[cache.Key]int{},
	}
	for slot := range o.Limits.States {
		st.free = append(st.free, slot)
	}
	return st
}

// Grid returns the positions between two places for snapshots.
func Grid(pageSize int) int {
	a, b := pageSize, compute.ChunkRows
	for b != 0 {
		a, b = b, a%b
	}
	return pageSize / a * compute.ChunkRows
}

// Slots returns the number of slots for states that a model with recurrent layers needs for a
// number of sequences: one for each, and a few for snapshots.
func Slots(sequences int) int { return sequences + 2 + sequences/16 }

// count counts the beginnings of the prompt of each choice of a request. It hashes the prompt once.
func (st *states) count(choices []*sequence, pool *cache.Pool) {
	if st == nil {
		return
	}
	prompt := choices[0].request.prompt
	keys := pool.Prefix(prompt)
	var places []gridPoint
	for position := st.grid; position < len(prompt); position += st.grid {
		at := gridPoint{position, keys[position/st.pageSize-1]}
		places = append(places, at)
		if len(st.recent) >= maxCounted {
			st.recent, st.older = map[cache.Key]int{}, st.recent
		}
		st.recent[at.key] += len(choices)
	}
	for _, s := range choices {
		s.state.keys, s.state.places = keys, places
	}
}

func (st *states) prompts(key cache.Key) int { return st.recent[key] + st.older[key] }

// admit gives a sequence a slot. There is always one, since snapshots never take the last ones.
func (st *states) admit(s *sequence) {
	if st == nil {
		return
	}
	last := len(st.free) - 1
	s.state.slot, s.state.from, s.state.accepted = st.free[last], -1, 0
	st.free = st.free[:last]
}

// release takes a sequence's slot away.
func (st *states) release(s *sequence) {
	if st == nil || s.table == nil {
		return
	}
	st.unclaim(s)
	st.unpin(s)
	st.free = append(st.free, s.state.slot)
}

func (st *states) unpin(s *sequence) {
	c := s.state.copied
	if c == nil {
		return
	}
	s.state.copied = nil
	if c.users--; c.users == 0 && c.discarded {
		st.free = append(st.free, c.slot)
	}
}

// unclaim withdraws the announcements of a sequence's snapshots.
func (st *states) unclaim(s *sequence) {
	for _, at := range s.state.places {
		if st.pending[at.key] == s {
			delete(st.pending, at.key)
		}
	}
}

// best returns the last snapshot that a sequence can continue, at a position after its own, below
// end. Its pages must be in the cache.
func (st *states) best(s *sequence, end int, pool *cache.Pool) (position int, found *snapshot) {
	places := s.state.places
	for i := len(places) - 1; i >= 0 && places[i].position > s.computed; i-- {
		c := st.copies[places[i].key]
		if c == nil || places[i].position >= end {
			continue
		}
		if pages := places[i].position / st.pageSize; pool.Known(s.state.keys[:pages]) == pages {
			return places[i].position, c
		}
	}
	return 0, nil
}

// use makes a sequence continue a copy of a snapshot.
func (st *states) use(s *sequence, c *snapshot) {
	st.unpin(s)
	st.unclaim(s)
	st.clock++
	c.users, c.used = c.users+1, st.clock
	s.state.copied, s.state.from = c, c.slot
}

// wants reports whether a sequence should take a snapshot at place i: fewer prompts begin with the
// tokens up to the next place, and several with those up to this one.
func (st *states) wants(s *sequence, i int) bool {
	here, next := st.prompts(s.state.places[i].key), 0
	if i+1 < len(s.state.places) {
		next = st.prompts(s.state.places[i+1].key)
	}
	return here > 1 && here > next && st.maxCopies > 0
}

// waits reports whether another sequence will take a snapshot that the sequence can continue. If
// not, it announces the snapshots that the sequence will take.
func (st *states) waits(s *sequence) bool {
	for _, at := range s.state.places {
		if by := st.pending[at.key]; at.position > s.computed && by != nil && by != s {
			st.unclaim(s)
			return true
		}
	}
	for i, at := range s.state.places {
		if at.position > s.computed && st.copies[at.key] == nil && st.wants(s, i) {
			st.pending[at.key] = s
		}
	}
	return false
}

// cut returns how many of the next n rows of a sequence a step can have: rows of the prompt end on
// the grid of chunks, with the prompt, or where the sequence takes a snapshot.
func (st *states) cut(s *sequence, n int) int {
	prompt := min(len(s.request.prompt), s.target())
	to := s.computed + n
	if st == nil || s.computed >= prompt {
		return n
	}
	for _, at := range s.state.places {
		if at.position > s.computed && at.position < to && st.pending[at.key] == s {
			return at.position - s.computed
		}
	}
	if to < prompt {
		to = to / compute.ChunkRows * compute.ChunkRows
	}
	return max(0, to-s.computed)
}

// maxDrafts returns how many of n drafts a sequence can have in a step.
func (st *states) maxDrafts(n int) int {
	if st == nil {
		return n
	}
	return min(n, st.drafts)
}

// least returns how many rows a sequence must have at least if it has some of the next n.
func (st *states) least(s *sequence, n int) int {
	if st == nil || n == 0 || s.computed >= len(s.request.prompt) {
		return n
	}
	return max(n, min(s.computed/compute.ChunkRows*compute.ChunkRows+compute.ChunkRows, s.target())-s.computed)
}

// rows returns what a step does with a sequence's state.
func (st *states) rows(s *sequence) compute.SeqState {
	if st == nil {
		return compute.SeqState{}
	}
	return compute.SeqState{
		From: s.state.from, Slot: s.state.slot, Accepted: s.state.accepted,
		Prompt: max(0, min(s.rows, len(s.request.prompt)-s.computed)),
		Drafts: max(0, s.computed+s.rows-s.length()),
	}
}

// settle records that a step has been computed, after the sequence's rejected drafts were removed
// from computed. It takes a snapshot if the sequence has announced one.
func (st *states) settle(s *sequence) {
	if st == nil {
		return
	}
	st.unpin(s)
	s.state.from = s.state.slot
	s.state.accepted = max(0, s.computed-(s.start+s.rows-len(s.draft.Drafts)))
	if s.stale {
		return
	}
	for _, at := range s.state.places {
		if at.position == s.computed && st.pending[at.key] == s {
			delete(st.pending, at.key)
			st.take(s, at.key)
		}
	}
}

// take makes a sequence's slot a snapshot, and gives the sequence another slot, to which its next
// step copies the state.
func (st *states) take(s *sequence, key cache.Key) {
	if st.copies[key] != nil || len(st.copies) >= st.maxCopies && !st.evict() || len(st.free) == 0 {
		return
	}
	last := len(st.free) - 1
	c := &snapshot{slot: s.state.slot}
	st.copies[key] = c
	s.state.slot, st.free = st.free[last], st.free[:last]
	st.use(s, c)
}

// evict removes the snapshot that was used least recently. It returns false if all are in use.
func (st *states) evict() bool {
	var oldest cache.Key
	var found *snapshot
	for key, c := range st.copies {
		if c.users == 0 && (found == nil || c.used < found.used) {
			oldest, found = key, c
		}
	}
	if found == nil {
		return false
	}
	st.free = append(st.free, found.slot)
	delete(st.copies, oldest)
	return true
}

// discard removes all snapshots, because some may be wrong. Sequences that were to continue one
// must be computed again.
func (st *states) discard(running []*sequence) {
	if st == nil {
		return
	}
	for _, s := range running {
		if s.state.copied != nil {
			s.stale = true
		}
	}
	for key, c := range st.copies {
		if c.discarded = true; c.users == 0 {
			st.free = append(st.free, c.slot)
		}
		delete(st.copies, key)
	}
}
