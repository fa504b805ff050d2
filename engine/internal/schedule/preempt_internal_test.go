package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/ingot-run/ingot/engine/generation"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/cpu"
	"github.com/ingot-run/ingot/engine/model"
)

// preempt takes the pages of the only running sequence, as if older sequences needed them. It
// answers another request before the sequence continues.
func (m manual) preempt(meanwhile generation.Request) {
	l := m.loop
	require.Len(m.t, l.planner.running, 1)
	s := l.planner.running[0]
	s.preempt()
	require.Zero(m.t, s.computed+s.start+s.rows)
	l.planner.running = l.planner.running[:0]
	m.finish(m.begin(meanwhile))
	l.planner.waiting = append(l.planner.waiting, s)
}

// newPreempted returns a scheduler whose prompts take several steps.
func newPreempted(t *testing.T) manual {
	t.Helper()
	return newManual(t, setup{path: microLlama, limits: model.Limits{PageSize: 4, Context: 64}, options: Options{PrefillChunk: 8}})
}

// A preempted prompt with log-probabilities continues with the next missing log-probability, even
// if another sequence has computed the remaining pages by then.
func TestAPreemptedPromptIsScoredInFull(t *testing.T) {
	t.Parallel()
	for name, promptOnly := range map[string]bool{"with an answer": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPreempted(t)
			scored := generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true, PromptLogprobs: true, PromptOnly: promptOnly}
			want := m.begin(scored)
			m.finish(want)

			got := m.begin(scored)
			m.step()
			require.Len(t, got.promptScores.ids, 8)
			m.preempt(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
			m.finish(got)
			require.Equal(t, want.promptScores, got.promptScores)
		})
	}
}

// Pages that a preempted sequence finds in the cache are not counted as cached, because it may have
// computed them itself.
func TestPagesOfItsOwnAreNotCountedAsCached(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	c := m.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	m.step()
	m.step()
	m.preempt(generation.Request{Tokens: []int32{7}, MaxTokens: 1, IgnoreEOS: true})
	m.finish(c)
	require.Zero(t, c.stats().CachedTokens)
}

// If a prompt was preempted before any of its positions were computed, pages that it finds in the
// cache are counted as cached.
func TestPagesOfOthersAreCountedAfterAPreemption(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	c := m.begin(generation.Request{Tokens: ascending(33), MaxTokens: 2, IgnoreEOS: true})
	m.loop.planner.admit()
	m.preempt(generation.Request{Tokens: ascending(33), MaxTokens: 1, IgnoreEOS: true})
	m.finish(c)
	require.Equal(t, 32, c.stats().CachedTokens)
}

// ascending returns a prompt of n tokens with ascending ids.
func ascending(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(100 + i)
	}
	return ids
}

// A preempted sequence is admitted before sequences with pages in the cache. Otherwise such
// sequences could overtake it without limit.
func TestAPreemptedSequenceIsNext(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	m.finish(m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 1, IgnoreEOS: true}))
	c := m.begin(generation.Request{Tokens: []int32{7, 8, 9}, MaxTokens: 9, IgnoreEOS: true})
	m.step()
	l := m.loop
	s := l.planner.running[0]
	s.preempt()
	l.planner.running = l.planner.running[:0]
	shares := m.begin(generation.Request{Tokens: ascending(20), MaxTokens: 1, IgnoreEOS: true})
	require.True(t, l.planner.pool.HasPrefix(l.planner.pool.Prefix(shares.seqs[0].tokens)))
	l.planner.waiting = []*sequence{s, shares.seqs[0]}
	l.planner.admit()
	requireOrder(t, l.planner.running, s, shares.seqs[0])
	m.finish(c)
}

// requireOrder checks that a list has the given sequences in this order. A failure shows where they
// are in the list, not what they contain.
func requireOrder(t *testing.T, got []*sequence, want ...*sequence) {
	t.Helper()
	places := make([]int, len(want))
	ordered := make([]int, len(want))
	for i, s := range want {
		places[i], ordered[i] = slices.Index(got, s), i
	}
	require.Equal(t, ordered, places, "places of the sequences in a list of %d", len(got))
	require.Len(t, got, len(want))
}

// After a step is planned, every running sequence has pages for its rows, also those behind a
// sequence that was preempted to make room.
func TestEveryRowHasAPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interactive [3]bool // in the order in which the sequences were admitted
		free        int     // pages that are free; each sequence needs one more
		running     []int
	}{
		"enough pages":                                {[3]bool{}, 3, []int{0, 1, 2}},
		"the last one has none":                       {[3]bool{}, 2, []int{0, 1}},
		"two of the three":                            {[3]bool{}, 0, []int{0}},
		"one before the sequence that needs it":       {[3]bool{false, true, true}, 1, []int{1, 2}},
		"the sequence itself, before an interactive":  {[3]bool{true, false, true}, 1, []int{0, 2}},
		"one behind the sequence, then the last":      {[3]bool{true, false, true}, 0, []int{0}},
		"only interactive ones are left":              {[3]bool{true, true, true}, 1, []int{0, 1}},
		"the first one itself, then the last":         {[3]bool{false, true, true}, 0, []int{1}},
		"all are interactive, and one page is enough": {[3]bool{true, true, true}, 2, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPreempted(t)
			p := &m.loop.planner
			for i, interactive := range c.interactive {
				m.begin(generation.Request{Tokens: []int32{int32(10 * i), 1, 2, 3}, MaxTokens: 9, IgnoreEOS: true, Interactive: interactive})
			}
			m.step()
			require.Len(t, p.running, 3)
			all := slices.Clone(p.running)
			slices.SortFunc(all, func(a, b *sequence) int { return int(a.tokens[0] - b.tokens[0]) })
			copy(p.running, all)
			hog := p.pool.NewTable()
			require.True(t, hog.Grow((p.pool.Available()-c.free)*p.pool.PageSize()))
			require.Equal(t, c.free, p.pool.Available())

			p.plan(time.Now())
			var want []*sequence
			for _, i := range c.running {
				want = append(want, all[i])
			}
			requireOrder(t, p.running, want...)
			for i, s := range p.running {
				require.Equal(t, 1, s.rows)
				require.GreaterOrEqual(t, s.table.Positions(), s.computed+s.rows, "sequence %d", i)
			}
			require.Equal(t, uint64(3-len(want)), p.preemptions)
		})
	}
}

// The youngest sequences are preempted, and are admitted again in the order of their first
// admission.
func TestPreemptedSequencesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	m := newPreempted(t)
	l := m.loop
	var all []*request
	for i := range int32(3) {
		all = append(all, m.begin(generation.Request{Tokens: []int32{10 * i, 1, 2, 3}, MaxTokens: 9, IgnoreEOS: true}))
	}
	m.step()
	order := slices.Clone(l.planner.running)
	require.Len(t, order, 3)
	hog := l.planner.pool.NewTable()
	require.True(t, hog.Grow(l.planner.pool.Available()*l.planner.pool.PageSize()))
	m.step() // each needs a second page
	requireOrder(t, l.planner.running, order[:1]...)
	requireOrder(t, l.planner.waiting, order[1:]...)
	require.Equal(t, uint64(2), l.planner.preemptions)
	hog.Release()
	m.step()
	requireOrder(t, l.planner.running, order...)
	for _, r := range all {
		m.finish(r)
	}
}

// A run ends with an answer if another sequence waits for its place.
func TestARunEndsForAWaitingSequence(t *testing.T) {
	t.Parallel()
	be, err := cpu.New(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m := newManual(t, setup{path: microLlama, backend: several{be}, options: Options{MaxSequences: 1}})
	step := func() uint64 {
		before := m.Snapshot().Steps
		m.step()
		return m.Snapshot().Steps - before
	}
	first := m.begin(generation.Request{Tokens: ascending(12), MaxTokens: 40, IgnoreEOS: true})
	second := m.begin(generation.Request{Tokens: []int32{4, 5, 6}, MaxTokens: 2, IgnoreEOS: true})
	require.Equal(t, uint64(32), step(), "the step of the prompt, and further ones")
	require.Equal(t, uint64(8), step())
	require.True(t, first.seqs[0].ended())
	require.Equal(t, uint64(2), step())
	m.finish(second)
}
