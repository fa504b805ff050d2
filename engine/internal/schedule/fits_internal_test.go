package schedule

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/model"
)

// holding returns a running sequence of a planner with the given number of known tokens, of which
// all but the last are computed, and of further tokens until its limit. own is the first token: the
// pages of sequences with the same one have the same content.
func (p *planner) holding(own int32, prompt, answer, more int) *sequence {
	s := &sequence{request: &request{prompt: append([]int32{own}, ascending(prompt-1)...), limit: prompt + answer + more}, victim: 1 << 30}
	s.tokens = append(slices.Clone(s.request.prompt), make([]int32, answer)...)
	s.table = p.pool.NewTable()
	s.computed = s.table.Adopt(s.tokens)
	if !s.table.Grow(s.length() - 1) {
		panic("the pool has too few pages")
	}
	s.computed = s.length() - 1
	s.table.Commit(s.tokens, s.computed)
	p.running = append(p.running, s)
	return s
}

// A sequence is admitted if, whenever a sequence is about to end, the pages of those that have not
// ended fit into the pages that are free and those that have become free.
func TestWhatFits(t *testing.T) {
	t.Parallel()
	fitted := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		const size, context = 4, 64
		groups := rapid.SampledFrom([]cache.Groups{{}, {Full: 1}, {Full: 1, Sliding: 2, Window: 6}}).Draw(t, "groups")
		p := planner{
			pool: cache.NewPool(200, size, groups), maxSequences: rapid.IntRange(1, 6).Draw(t, "slots"),
			limits: model.Limits{Context: context, Rows: rapid.IntRange(4, 40).Draw(t, "rows")}, prefillChunk: rapid.IntRange(2, 30).Draw(t, "chunk"),
		}
		small := rapid.IntRange(1, 20)
		for range rapid.IntRange(0, 4).Draw(t, "running") {
			s := p.holding(rapid.Int32Range(0, 2).Draw(t, "text"), small.Draw(t, "prompt"), rapid.IntRange(0, 9).Draw(t, "answer"), small.Draw(t, "more"))
			if rapid.Bool().Draw(t, "prefills") {
				s.computed /= 2
			}
		}
		most := p.pool.Available() / (max(1, groups.Full) + groups.Sliding)
		require.True(t, p.pool.NewTable().Grow(size*max(0, most-rapid.IntRange(0, 30).Draw(t, "free pages"))))
		preempt := rapid.IntRange(0, len(p.running)).Draw(t, "preempted")
		for i, r := range p.running {
			r.victim = i
		}
		s := &sequence{request: &request{prompt: append([]int32{0}, ascending(small.Draw(t, "prompt")-1)...)}}
		s.tokens = s.request.prompt
		s.request.limit = s.length() + small.Draw(t, "answer")

		type one struct{ steps, now, has, frees int }
		all := []one{{min(128, s.request.limit-s.length()), s.length(), p.pool.Held(p.pool.Prefix(s.tokens)), 0}}
		available, rows, prompts, chunks := p.pool.Available(), 0, 0, 0
		// A step with several rows of a prompt needs the window before each of them, but no more
		// pages than the prompt has.
		prefills := func(s *sequence) {
			chunk := min(p.prefillChunk, s.left())
			rows, prompts = rows+chunk, prompts+1
			all := (s.length() + size - 1) / size
			chunks += min(all, (groups.Window+chunk-2+size-1)/size+1) - min(all, (groups.Window-1+size-1)/size+1)
		}
		prefills(s)
		for i, r := range p.running {
			own := r.table.Held() - r.table.Adopted()
			if i < preempt {
				available += own
			} else {
				all = append(all, one{min(128, r.request.limit-r.length()), r.length(), r.table.Held(), own})
			}
			if len(r.answer()) == 0 || r.left() != 1 {
				prefills(r)
			}
		}
		window := (groups.Window-1+size-1)/size + 1 // pages of one sequence in a sliding group
		want := len(all) <= p.maxSequences
		for _, last := range all {
			if len(all) == 1 {
				break // an idle engine admits any sequence
			}
			needed, free, positions, windowed, n := 0, available, 0, 0, 0
			for _, other := range all {
				if other.steps < last.steps {
					free += other.frees
					continue
				}
				n++
				positions += other.now + last.steps
				windowed += min(other.now, window*size) + last.steps
				needed -= other.has
			}
			needed += max(1, groups.Full)*min(positions/size+n, n*context/size) + groups.Sliding*min(windowed/size+n, n*window)
			if n == len(all) {
				needed += groups.Sliding * min(chunks, min(rows, p.limits.Rows)/size+prompts)
			}
			want = want && needed <= free
		}
		fitted[want]++
		require.Equal(t, want, p.fits(s, preempt))
	})
	if fitted[true]+fitted[false] >= 100 { // of fewer cases, all may fit
		require.Positive(t, min(fitted[true], fitted[false]), "%v", fitted)
	}
}

// Pages that a waiting sequence would share with running ones need not be free.
func TestPagesThatAWaitingSequenceShares(t *testing.T) {
	t.Parallel()
	p := planner{pool: cache.NewPool(20, 4, cache.Groups{})}
	p.holding(1, 10, 0, 5)
	for length, want := range map[int]int{1: 0, 4: 0, 5: 1, 8: 1, 9: 2, 20: 2} {
		s := &sequence{request: &request{prompt: append([]int32{1}, ascending(length-1)...)}}
		s.tokens = s.request.prompt
		require.Equal(t, want, p.held(s), "%d tokens", length)
		p.noSharing = true
		require.Zero(t, p.held(s))
		p.noSharing = false
		s.request.scoresPrompt = length > 1
		if length > 1 {
			require.Zero(t, p.held(s), "its whole prompt is computed")
		}
	}
}

// Of waiting batch sequences, one whose prompt begins with a page of the cache goes first, unless
// the first of all was preempted or has waited for long.
func TestWhichWaitingSequenceIsChosen(t *testing.T) {
	t.Parallel()
	waiting := func(own int32, n int) *sequence {
		return &sequence{request: &request{}, tokens: append([]int32{own}, ascending(n-1)...)}
	}
	for name, c := range map[string]struct {
		first  sequence
		cached int // index of the sequence with a page in the cache; -1 for none
		length int
		want   int
	}{
		"none is cached":             {cached: -1, length: 9},
		"the third one":              {cached: 2, length: 9, want: 2},
		"the first one":              {cached: 0, length: 9},
		"a page and a token":         {cached: 2, length: 5, want: 2},
		"a page alone":               {cached: 2, length: 4},
		"the first was preempted":    {first: sequence{recomputed: true}, cached: 2, length: 9},
		"the first has waited":       {first: sequence{skips: maxSkips}, cached: 2, length: 9},
		"the first has not waited":   {first: sequence{skips: maxSkips - 1}, cached: 2, length: 9, want: 2},
		"the last that is looked at": {cached: maxScan - 1, length: 9, want: maxScan - 1},
		"one that is not looked at":  {cached: maxScan, length: 9},
	} {
		p := planner{pool: cache.NewPool(20, 4, cache.Groups{})}
		p.holding(1, 10, 0, 5)
		for i := range maxScan + 5 {
			own := int32(2)
			if i == c.cached {
				own = 1
			}
			p.waiting = append(p.waiting, waiting(own, c.length))
		}
		p.waiting[0].recomputed, p.waiting[0].skips = c.first.recomputed, c.first.skips
		require.Equal(t, c.want, p.choose(), name)
		require.Equal(t, c.want, p.choose(), name)
	}
}

// Victims are batch sequences that yield, youngest first, and then choices of the requests that
// have several, but not the oldest one.
func TestVictims(t *testing.T) {
	t.Parallel()
	type of struct {
		request, skips int
		interactive    bool
	}
	for name, c := range map[string]struct {
		running []of
		another bool  // another choice of the waiting request runs
		want    []int // indices of running
	}{
		"none":                       {},
		"batch sequences":            {running: []of{{}, {request: 1}, {request: 2}}, want: []int{2, 1, 0}},
		"choices of a batch request": {running: []of{{}, {}, {request: 1}}, want: []int{2, 1, 0}},
		"one that has waited":        {running: []of{{}, {request: 1, skips: maxSkips}, {request: 2, skips: maxSkips - 1}}, want: []int{2, 0}},
		"interactive ones":           {running: []of{{0, 0, true}, {1, 0, true}}, want: nil},
		"choices":                    {running: []of{{0, 0, true}, {1, 0, true}, {0, 0, true}, {0, 0, true}}, want: []int{3, 2}},
		"choices of two":             {running: []of{{0, 0, true}, {1, 0, true}, {0, 0, true}, {1, 0, true}, {1, 0, true}}, want: []int{4, 3, 2}},
		"batch before choices":       {running: []of{{0, 0, true}, {2, 0, false}, {0, 0, true}, {3, 0, false}}, want: []int{3, 1, 2}},
		"another choice runs":        {running: []of{{0, 0, true}, {2, 0, false}, {0, 0, true}, {3, 0, false}}, another: true, want: []int{3, 1}},
	} {
		var p planner
		requests := []*request{{}, {}, {}, {}}
		for _, r := range c.running {
			requests[r.request].interactive = r.interactive
			p.running = append(p.running, &sequence{request: requests[r.request], skips: r.skips})
		}
		waiting := &sequence{request: &request{interactive: true}}
		if c.another {
			waiting.request.running = 1
		}
		for range 2 { // the second time, everything is as before
			p.victims(waiting)
			var got []int
			for i, v := range p.victimList {
				require.Equal(t, i, v.victim, name)
				got = append(got, slices.Index(p.running, v))
			}
			require.Equal(t, c.want, got, name)
			for i, r := range p.running {
				if !slices.Contains(got, i) {
					require.GreaterOrEqual(t, r.victim, len(got), name)
				}
			}
		}
	}
}

// A sequence is preempted for another one only if fewer victims do not suffice, and a batch
// sequence that was overtaken often goes before interactive ones.
func TestWhichSequenceIsNext(t *testing.T) {
	t.Parallel()
	newPlanner := func() *planner {
		return &planner{pool: cache.NewPool(32, 4, cache.Groups{}), maxSequences: 3, limits: model.Limits{Context: 200}, prefillChunk: 8}
	}
	waits := func(p *planner, interactive bool, skips, length int) {
		r := &request{interactive: interactive, prompt: append([]int32{9}, ascending(length-1)...), limit: length + 4}
		p.waiting = append(p.waiting, &sequence{request: r, tokens: r.prompt, skips: skips})
	}
	type next struct {
		i, preempt int
		ok         bool
	}
	for name, c := range map[string]struct {
		running int // batch sequences of 3 pages each when they end
		setup   func(p *planner)
		want    next
	}{
		"a batch sequence":          {1, func(p *planner) { waits(p, false, 0, 8) }, next{0, 0, true}},
		"no slot":                   {3, func(p *planner) { waits(p, false, 0, 8) }, next{0, 0, false}},
		"an interactive one":        {1, func(p *planner) { waits(p, true, 0, 8); waits(p, false, 0, 8) }, next{0, 0, true}},
		"instead of a batch one":    {3, func(p *planner) { waits(p, true, 0, 8); waits(p, false, 0, 8) }, next{0, 1, true}},
		"instead of two":            {3, func(p *planner) { waits(p, true, 0, 94) }, next{0, 2, true}},
		"instead of all":            {3, func(p *planner) { waits(p, true, 0, 110) }, next{0, 3, true}},
		"after a batch one":         {1, func(p *planner) { waits(p, true, 0, 8); waits(p, false, maxSkips, 8) }, next{1, 0, true}},
		"before one that has none":  {3, func(p *planner) { waits(p, true, 0, 8); waits(p, false, maxSkips, 8) }, next{0, 1, true}},
		"just before it has waited": {1, func(p *planner) { waits(p, true, 0, 8); waits(p, false, maxSkips-1, 8) }, next{0, 0, true}},
		"the one whose turn it is": {1, func(p *planner) {
			waits(p, true, 0, 8)
			waits(p, true, 0, 8)
			p.waiting[0].request.running = 1
		}, next{1, 0, true}},
		"no victim yields": {3, func(p *planner) {
			waits(p, true, 0, 8)
			for _, s := range p.running {
				s.skips = maxSkips
			}
		}, next{0, 1, false}},
	} {
		p := newPlanner()
		for i := range c.running {
			p.holding(int32(i), 8, 1, 3)
		}
		c.setup(p)
		i, preempt, ok := p.next()
		if !ok {
			preempt = c.want.preempt // has no meaning
		}
		require.Equal(t, c.want, next{i, preempt, ok}, name)
	}
}
