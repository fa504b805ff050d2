package schedule

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cache"
)

// recurrent has states for a number of sequences and snapshots, and a pool of pages.
type recurrent struct {
	*states
	t    *testing.T
	pool *cache.Pool
}

func newRecurrent(t *testing.T, slots, snapshots int) recurrent {
	t.Helper()
	st := &states{
		grid: Grid(16), pageSize: 16, drafts: 3, maxCopies: snapshots, copies: map[cache.Key]*snapshot{}, pending: map[cache.Key]*sequence{},
		recent: map[cache.Key]int{}, older: map[cache.Key]int{},
	}
	for slot := range slots {
		st.free = append(st.free, slot)
	}
	return recurrent{st, t, cache.NewPool(64, 16, cache.Groups{Full: 1})}
}

// begin counts a prompt with a number of choices and returns its first sequence.
func (r recurrent) begin(prompt []int32, choices int) *sequence {
	seqs := make([]*sequence, choices)
	for i := range seqs {
		seqs[i] = &sequence{request: &request{prompt: prompt}, choice: i, tokens: slices.Clip(prompt)}
	}
	r.count(seqs, r.pool)
	return seqs[0]
}

// run gives a sequence a slot and a table.
func (r recurrent) run(prompt []int32) *sequence {
	s := r.begin(prompt, 1)
	s.table = r.pool.NewTable()
	r.admit(s)
	return s
}

// compute computes the next rows of a sequence.
func (r recurrent) compute(s *sequence, rows int) {
	s.start, s.rows = s.computed, rows
	require.True(r.t, s.table.Grow(s.computed+rows))
	s.computed = min(s.computed+rows, s.length())
	s.table.Commit(s.tokens, s.computed)
	r.settle(s)
}

func (r recurrent) freeSlots() []int { return slices.Sorted(slices.Values(r.free)) }

// after returns a prompt of 200 tokens that begins with the first same tokens of ascending.
func after(same int, token int32) []int32 {
	return append(ascending(same), slices.Repeat([]int32{token}, 200-same)...)
}

// Snapshots are taken where both pages and chunks end.
func TestGridOfSnapshots(t *testing.T) {
	t.Parallel()
	for pageSize, want := range map[int]int{1: 64, 16: 64, 48: 192, 64: 64, 96: 192, 128: 128} {
		require.Equal(t, want, Grid(pageSize))
	}
	for sequences, want := range map[int]int{1: 3, 15: 17, 16: 19, 32: 36} {
		require.Equal(t, want, Slots(sequences))
	}
	r := newRecurrent(t, 1, 1)
	for n, places := range map[int][]int{64: nil, 65: {64}, 128: {64}, 129: {64, 128}, 200: {64, 128, 192}} {
		s := r.begin(ascending(n), 1)
		var got []int
		for _, at := range s.state.places {
			got = append(got, at.position)
			require.Equal(t, s.state.keys[at.position/16-1], at.key)
		}
		require.Equal(t, places, got)
		require.Len(t, s.state.keys, (n-1)/16)
	}
}

// A snapshot is wanted where prompts part: more of them begin with the tokens up to there than with
// those up to the next place.
func TestWantedSnapshots(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 4, 1)
	wanted := func(s *sequence) (places []int) {
		for i, at := range s.state.places {
			if r.wants(s, i) {
				places = append(places, at.position)
			}
		}
		return places
	}
	first := r.begin(after(140, 7), 1)
	require.Empty(t, wanted(first), "it is alone")
	r.begin(after(140, 8), 1)
	require.Equal(t, []int{128}, wanted(first))
	r.begin(after(70, 9), 1)
	require.Equal(t, []int{64, 128}, wanted(first))
	three := r.begin(after(0, 5), 3)
	require.Equal(t, []int{192}, wanted(three), "the choices of a request have the same prompt")
	r.maxCopies = 0
	require.Empty(t, wanted(first), "there are no slots for snapshots")

	// Old counts are forgotten only when as many new ones have come.
	require.Equal(t, 3, r.prompts(first.state.places[0].key))
	for i := range maxCounted - len(r.recent) {
		r.recent[cache.Key{byte(i), byte(i >> 8), byte(i >> 16), 1}]++
	}
	r.begin(after(140, 6), 1)
	require.Equal(t, 4, r.prompts(first.state.places[0].key))
	require.Len(t, r.recent, 3)
	require.Len(t, r.older, maxCounted)
}

// Of two sequences with the same beginning, one computes it, and the other continues a copy of its
// state.
func TestSequencesShareAState(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 4, 2)
	a, b := r.run(after(70, 7)), r.run(after(70, 8))
	require.Equal(t, []int{0, 1}, r.freeSlots())
	require.Equal(t, []int{3, -1, 2, -1}, []int{a.state.slot, a.state.from, b.state.slot, b.state.from})
	require.False(t, r.waits(a))
	require.True(t, r.waits(b), "a will take the snapshot")
	require.False(t, r.waits(a), "it does not wait for itself")
	require.Equal(t, 64, r.cut(a, 200), "its rows end where it takes the snapshot")
	require.Equal(t, 64, r.cut(b, 100))
	require.Equal(t, compute.SeqState{From: -1, Slot: 3}, r.rows(a))
	a.rows = 64
	require.Equal(t, compute.SeqState{From: -1, Slot: 3, Prompt: 64}, r.rows(a))

	r.compute(a, 64)
	require.Equal(t, []int{0}, r.freeSlots())
	require.Equal(t, []int{1, 3}, []int{a.state.slot, a.state.from}, "its slot is the snapshot, which it continues in another")
	require.False(t, r.waits(b))
	position, c := r.best(b, 200, r.pool)
	require.Equal(t, 64, position)
	require.Equal(t, snapshot{slot: 3, users: 1, used: 1}, *c)
	_, none := r.best(b, 64, r.pool)
	require.Nil(t, none, "a row must be left to compute")
	_, none = r.best(a, 200, r.pool)
	require.Nil(t, none, "it is not before a's own position")
	r.use(b, c)
	require.Equal(t, []any{3, 2, uint64(2)}, []any{b.state.from, c.users, c.used})
	require.Equal(t, 64, b.table.Adopt(b.tokens[:65]))
	b.computed = 64

	r.compute(a, 64)
	require.Equal(t, []int{1, 1}, []int{a.state.slot, a.state.from})
	require.Equal(t, 1, c.users)
	r.compute(b, 64)
	require.Zero(t, c.users)
	require.Equal(t, []int{2, 2}, []int{b.state.slot, b.state.from})
	r.release(a)
	a.release()
	r.release(b)
	require.Equal(t, []int{0, 1, 2}, r.freeSlots(), "the snapshot has the last slot")
	r.release(a)
	require.Len(t, r.free, 3, "a slot is released once")
}

// A sequence that is released, or gets no rows, announces no snapshot.
func TestAnnouncedSnapshots(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r recurrent, s *sequence){
		"released":  func(r recurrent, s *sequence) { r.release(s) },
		"unclaimed": func(r recurrent, s *sequence) { r.unclaim(s) },
	} {
		r := newRecurrent(t, 4, 2)
		a, b := r.run(after(70, 7)), r.run(after(70, 8))
		require.False(t, r.waits(a))
		require.True(t, r.waits(b))
		end(r, a)
		require.Empty(t, r.pending, name)
		require.False(t, r.waits(b))
		require.Equal(t, 64, r.cut(b, 200), "b will take it")
	}
	r := newRecurrent(t, 4, 2)
	a, b := r.run(after(70, 7)), r.run(after(70, 8))
	require.False(t, r.waits(a))
	a.stale = true
	r.compute(a, 64)
	require.Empty(t, r.copies, "its state may be wrong")
	r.unclaim(a)
	b.computed = 64
	require.False(t, r.waits(b))
	require.Empty(t, r.pending, "the place is behind it")

	r = newRecurrent(t, 4, 2)
	a, b = r.run(after(70, 7)), r.run(after(70, 8))
	require.False(t, r.waits(a))
	a.computed, b.computed = 64, 64
	require.False(t, r.waits(b), "it has computed as much itself")
	require.Equal(t, 136, r.cut(a, 136), "it is at the snapshot already")
}

// A stale sequence gives its state back before it is computed again.
func TestStaleSequencesGiveTheirStateBack(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 2, 0)
	s := r.run(ascending(20))
	require.Len(t, r.free, 1)
	s.stale, s.request.ctx = true, t.Context()
	p := planner{states: r.states, pool: r.pool, running: []*sequence{s}}
	p.sweep()
	require.Len(t, r.free, 2)
	require.Empty(t, p.running)
	require.Equal(t, []*sequence{s}, p.waiting)
	require.False(t, s.stale)
}

// Snapshots are evicted from the one that was used least recently, unless a sequence continues it.
func TestEvictedSnapshots(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 5, 2)
	for _, token := range []int32{1, 2, 3} {
		s := r.run(slices.Repeat([]int32{token}, 100))
		r.begin(slices.Repeat([]int32{token}, 90), 1)
		require.False(t, r.waits(s))
		r.compute(s, 64)
		require.Len(t, r.copies, min(2, int(token)))
		r.unpin(s)
		r.release(s)
		s.release()
	}
	require.Len(t, r.free, 3)
	require.Equal(t, uint64(3), r.clock)
	for _, c := range r.copies {
		require.NotEqual(t, uint64(1), c.used)
		c.users++
	}
	s := r.run(slices.Repeat([]int32{4}, 100))
	r.begin(slices.Repeat([]int32{4}, 90), 1)
	require.False(t, r.waits(s))
	slot := s.state.slot
	r.compute(s, 64)
	require.Equal(t, slot, s.state.slot, "all snapshots are in use")
	require.Len(t, r.copies, 2)
	require.False(t, r.evict())
	for _, c := range r.copies {
		c.users = 0
	}
	require.True(t, r.evict())
	require.Len(t, r.copies, 1)
	for _, c := range r.copies {
		require.Equal(t, uint64(3), c.used, "the older one is gone")
	}
}

// When pages may be wrong, all snapshots go, and sequences that were to continue one are computed
// again.
func TestDiscardedSnapshots(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 5, 2)
	a, b := r.run(after(70, 7)), r.run(after(0, 8))
	r.begin(after(70, 9), 1)
	require.False(t, r.waits(a))
	r.compute(a, 64)
	r.discard([]*sequence{a, b})
	require.Equal(t, []bool{true, false}, []bool{a.stale, b.stale})
	require.Empty(t, r.copies)
	require.Equal(t, []int{0, 1}, r.freeSlots(), "its slot is in use until a has gone")
	r.release(a)
	require.Equal(t, []int{0, 1, 2, 4}, r.freeSlots())

	planned := newRecurrent(t, 5, 2)
	a, b = planned.run(after(70, 7)), planned.run(after(0, 8))
	planned.begin(after(70, 9), 1)
	require.False(t, planned.waits(a))
	planned.compute(a, 64)
	p := planner{states: planned.states, pool: planned.pool, running: []*sequence{a, b}}
	p.discard(b)
	require.Equal(t, []bool{true, true}, []bool{a.stale, b.stale}, "a continues a snapshot, and b's pages are wrong")
	require.Empty(t, planned.copies)

	unused := newRecurrent(t, 3, 1)
	s := unused.run(after(70, 7))
	unused.begin(after(70, 9), 1)
	require.False(t, unused.waits(s))
	unused.compute(s, 64)
	unused.compute(s, 64)
	unused.discard([]*sequence{s})
	require.False(t, s.stale)
	require.Len(t, unused.free, 2)
}

// Rows of a prompt end on the grid of chunks, with the prompt, or at a snapshot; rows after it end
// anywhere.
func TestRowsOfAStep(t *testing.T) {
	t.Parallel()
	r := newRecurrent(t, 3, 1)
	for _, c := range []struct{ computed, n, cut, least int }{
		{0, 200, 200, 200}, {0, 199, 192, 199}, {0, 64, 64, 64}, {0, 63, 0, 64}, {0, 1, 0, 64}, {0, 0, 0, 0}, {64, 70, 64, 70}, {64, 5, 0, 64}, {128, 72, 72, 72}, {192, 8, 8, 8}, {192, 3, 0, 8},
		{200, 1, 1, 1}, {199, 1, 1, 1},
	} {
		s := r.begin(ascending(200), 1)
		s.computed = c.computed
		require.Equal(t, c.cut, r.cut(s, c.n), "%+v", c)
		require.Equal(t, c.least, r.least(s, c.n), "%+v", c)
	}
	for n, want := range map[int]int{0: 0, 2: 2, 3: 3, 4: 3} {
		require.Equal(t, want, r.maxDrafts(n))
	}

	// Of three drafts, one was accepted: the state must include the token before it and the draft.
	s := r.run(ascending(10))
	r.compute(s, 10)
	require.Zero(t, s.state.accepted)
	s.tokens = append(s.tokens, 1)
	s.draft.Drafts = []int32{2, 3, 4}
	s.start, s.rows = 10, 4
	require.Equal(t, compute.SeqState{From: 2, Slot: 2, Drafts: 3}, r.rows(s))
	s.computed = 12
	r.settle(s)
	require.Equal(t, 1, s.state.accepted)
	require.Equal(t, 1, r.rows(s).Accepted)
	s.computed = 11
	r.settle(s)
	require.Zero(t, s.state.accepted)
}

// A model without recurrent layers has no states, and everything is as if there were none.
func TestNoStates(t *testing.T) {
	t.Parallel()
	var st *states
	s := &sequence{request: &request{prompt: ascending(200)}, tokens: ascending(200), computed: 5, rows: 3}
	st.count([]*sequence{s}, nil)
	st.admit(s)
	st.unclaim(s)
	st.release(s)
	st.settle(s)
	st.discard([]*sequence{s})
	require.Equal(t, seqState{}, s.state)
	require.False(t, st.waits(s))
	require.Equal(t, []int{5, 5, 5}, []int{st.cut(s, 5), st.least(s, 5), st.maxDrafts(5)})
	require.Equal(t, compute.SeqState{}, st.rows(s))
	m := newManual(t, setup{path: microLlama})
	require.Nil(t, m.loop.planner.states)
}
