package draft

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

// counter is a small model that counts: after token t it drafts t+1, and is sure of it unless t
// ends with 9. It checks what passes read.
type counter struct {
	model.Model
	t     *testing.T
	shift int
	best  [][]float32
	seen  map[int32]int // by the first page of a sequence: number of positions that were processed
	first int           // number of first passes
}

func (c *counter) Best(int) [][]float32 { return c.best }

func (c *counter) forward(p *pass, first bool) error {
	if first {
		c.first++
	}
	row := 0
	for _, s := range p.Seqs {
		for range s.Rows {
			require.Equal(c.t, p.Positions[row], p.Tokens[row]%100-int32(c.shift), "the text counts from 0")
			at := int(p.Positions[row])
			require.LessOrEqual(c.t, at, c.seen[s.Pages[0]], "no position is left out")
			c.seen[s.Pages[0]] = max(c.seen[s.Pages[0]], at+1)
			row++
		}
	}
	require.Len(c.t, p.Tokens, row)
	require.Len(c.t, p.Outputs, len(p.seqs))
	c.best = nil
	for _, at := range p.Outputs {
		confidence := 0.999
		if p.Tokens[at]%10 == 9 {
			confidence = 0.4
		}
		c.best = append(c.best, []float32{float32(p.Tokens[at] + 1), float32(math.Log(confidence)), 0})
	}
	return nil
}

// A sequence's drafts by passes continue its text. Each pass processes the tokens that are new, and
// no draft is beyond the wanted number, a stop token or the end of an answer.
func TestDraftsByPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fixed, shift int
		stop         int32 // 0 for none
		most         int   // drafts of a step
	}{
		"fixed, small model":    {fixed: 3, most: 3},
		"fixed, MTP":            {fixed: 3, shift: 1, most: 3},
		"measured, small model": {most: MaxTokens},
		"measured, MTP":         {shift: 1, most: MaxTokens},
		"with a stop token":     {fixed: 5, stop: 30, most: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := cost.NewSteps(cost.NewCurve([]int{1, 64}, []float64{1, 1.01}), 0, 0, 0)
			sp, err := New(Options{Fixed: c.fixed, Steps: steps, Limits: model.Limits{Rows: 256}, MaxInFlight: 1})
			require.NoError(t, err)
			m := &counter{t: t, shift: c.shift, seen: map[int32]int{}}
			sp.chain = &chain{forward: m.forward, model: m, shift: c.shift, states: c.shift == 1, rows: 256}
			sp.planner.Pass = cost.NewCurve([]int{1}, []float64{1e-9})
			sp.ledger = newLedger(1, true)
			sp.unprofitable = 0
			pool := cache.NewPool(64, 4, cache.Groups{})
			var seqs []*Sequence
			for i := range 3 {
				s := &Sequence{Limit: 60 + i, Table: pool.NewTable(), Temperature: float64(i) / 2}
				for len(s.Tokens) < 10 {
					s.Tokens = append(s.Tokens, int32(len(s.Tokens)))
				}
				if c.stop > 0 {
					s.StopIDs = []int32{c.stop, 1000}
				}
				require.True(t, s.Table.Grow(64))
				seqs = append(seqs, s)
			}
			made, longest := 0, 0
			for running := seqs; len(running) > 0; made++ {
				row := 0
				for _, s := range running { // the step that computes what is known
					s.Start = s.Computed
					s.FirstRow, s.Rows = row, s.Length()-s.Computed
					s.Computed = s.Length()
					row += s.Rows
					s.Tokens = append(s.Tokens, int32(s.Length()))
				}
				require.NoError(t, sp.Draft(running, Next{Running: len(running), Decode: running}))
				size := cost.Size{}
				var left []*Sequence
				for _, s := range running {
					longest = max(longest, len(s.Drafts))
					require.LessOrEqual(t, s.Length()+len(s.Drafts), s.Limit-1, "the step that verifies generates one token more")
					for i, d := range s.Drafts {
						require.Equal(t, int32(s.Length()+i), d)
						require.True(t, c.stop == 0 || d != c.stop || i == len(s.Drafts)-1, "nothing follows a stop token")
						s.Verify(d)
					}
					require.Len(t, s.Drafts, s.Accepted)
					require.True(t, c.fixed == 0 || c.stop > 0 || len(s.Drafts) == min(c.fixed, s.Limit-1-s.Length()), "%d drafts at %d", len(s.Drafts), s.Length())
					size = size.Add(cost.Size{Rows: 1 + len(s.Drafts), Outputs: 1 + len(s.Drafts)})
					s.Tokens = append(s.Tokens, s.Drafts...)
					if s.Length() < s.Limit-1 {
						left = append(left, s)
					}
				}
				sp.Observe(running, Step{Size: size, Steps: 1, Seconds: steps.Seconds(size)})
				for _, s := range running {
					require.Empty(t, s.Drafts)
				}
				running = left
			}
			require.Equal(t, c.most, longest)
			require.Equal(t, made, m.first, "one first pass follows each step")
			require.Less(t, made, 30)
			for _, s := range seqs {
				require.Equal(t, s.Total.Drafted, s.Total.Accepted)
			}
		})
	}
}

// A gate ends the drafts of a sequence when a further one is not worth its row or its pass.
func TestGateEndsDrafts(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.Token, g.Row = 1, 0.3
	sure, unsure := 0.9999, 0.1 // chances of about 1 and 0.25
	for name, c := range map[string]struct {
		confidences []float64
		pass        float64
		gate        *gate
		want        []bool // results of add
		drafts      int
		gated       bool
	}{
		"all wanted":         {[]float64{sure, sure, sure}, 0.1, &g, []bool{true, true, false}, 3, false},
		"an unsure draft":    {[]float64{sure, unsure}, 0.1, &g, []bool{true, false}, 1, true},
		"passes are dear":    {[]float64{sure}, 0.8, &g, []bool{false}, 1, true},
		"no gate":            {[]float64{unsure, unsure, unsure}, 9, nil, []bool{true, true, false}, 3, false},
		"the last is unsure": {[]float64{sure, sure, unsure}, 0.1, &g, []bool{true, true, false}, 2, true},
	} {
		s := &Sequence{wanted: 3}
		for i, confidence := range c.confidences {
			require.Equal(t, c.want[i], s.add(int32(i), confidence, c.pass, c.gate), "%s: %d", name, i)
		}
		require.Len(t, s.Drafts, c.drafts, name)
		require.Len(t, s.confidence, c.drafts, name)
		require.Equal(t, c.gated, s.gated, name)
	}
	s := &Sequence{wanted: 3}
	for range 2 {
		s.add(1, 0.9, 0, &g)
	}
	require.InDelta(t, g.Chance(0.9)*g.Chance(0.9), s.chance, 1e-12)
}

// The ledger allows drafts while what they have cost is within their budget.
func TestLedger(t *testing.T) {
	t.Parallel()
	step := func(seconds float64, n int) Step { return Step{Seconds: seconds, Steps: n} }
	l := newLedger(3, false)
	require.Equal(t, []float64{2, 4, 1}, []float64{l.allowance, float64(l.ramp), l.slow})
	require.Equal(t, []int{0, 0}, []int{newLedger(1, false).ramp, newLedger(0, false).ramp})
	require.InDelta(t, 64, newLedger(1, true).allowance, 0)
	require.True(t, (&ledger{}).allows())
	require.False(t, l.allows(), "steps in flight must be measured first")
	require.False(t, l.observe(step(1, firstSteps-1), false, 1, 1, 0))
	require.False(t, l.allows())
	l.spent, l.since = 0, 9
	require.False(t, l.observe(step(1, 1), false, 1, 1, 0))
	require.True(t, l.allows())
	require.InDeltaSlice(t, []float64{1, 1, 0}, []float64{l.spent, l.last, l.lost}, 0)
	require.True(t, l.observe(step(3, 1), true, 1.5, 1, 0), "a step with drafts that took two seconds more")
	require.InDeltaSlice(t, []float64{4, 1, 2, 1.05}, []float64{l.spent, l.last, l.lost, l.slow}, 1e-9)
	require.True(t, l.allows(), "two steps and 0.005 of 4 s are allowed")
	require.True(t, l.observe(step(1.1, 1), false, 1, 1, 0), "shortly after a step with drafts")
	require.InDelta(t, 2.1, l.lost, 1e-9)
	require.InDelta(t, 1.05-0.001*0.05, l.slow, 1e-9, "the factor returns to 1")
	require.False(t, l.allows())
	for range 2 {
		l.observe(step(1, 1), false, 1, 1, 0)
	}
	require.Equal(t, []int{3, 4}, []int{l.since, l.plain})
	require.True(t, l.observe(step(1, 2), false, 1, 1, 0))
	require.Equal(t, []int{5, 6}, []int{l.since, l.plain})
	require.False(t, l.observe(step(1, 1), false, 1, 1, 0), "long after one")
	require.Zero(t, l.plain)
	require.False(t, l.allows())
	for range 4 {
		l.observe(step(1, 100), false, 1, 1, 0)
	}
	require.InDelta(t, 4+1.1+2+2+1+400, l.spent, 1e-9)
	require.True(t, l.allows(), "the budget has grown with the time of all steps")

	l = newLedger(1, false)
	l.observe(step(1, 2), true, 1, 1, 100)
	require.InDelta(t, -8, l.lost, 0, "savings count up to a limit")
	l.observe(step(1, 1), true, 1, 1, -5)
	require.InDelta(t, -3, l.lost, 1e-9)
	l.last = 2
	l.lose(-100)
	require.InDelta(t, -16, l.lost, 0)
	l.last = 1
	for name, c := range map[string]struct {
		ledger         ledger
		every          []int
		ramp, controls int
	}{
		"single steps":    {newLedger(1, false), []int{1024, 1024}, 0, 1},
		"steps in flight": {newLedger(3, false), []int{16, 32, 64, 128, 256, 512, 1024, 1024}, 0, 8},
		"with passes":     {newLedger(3, true), []int{1024, 1024}, 4, 1},
	} {
		l := c.ledger
		l.due = 0
		for _, every := range c.every {
			for range every {
				require.True(t, l.allows(), "%s, %d", name, every)
				l.observe(step(1, 1), true, 1, 1, 1)
			}
			require.False(t, l.allows(), "%s: steps without drafts must be measured again", name)
			for i := range c.ramp + c.controls {
				require.False(t, l.allows(), "%s, %d", name, every)
				require.Equal(t, i < c.ramp, l.observe(step(1, 1), false, 1, 1, 0), name)
			}
		}
	}
	l = newLedger(3, false)
	l.since, l.due = 3, 0
	require.True(t, l.observe(step(1, 0), false, 1, 1, 0), "the last of four steps; it counts as one step")
	require.Equal(t, []int{4, 1}, []int{l.since, l.plain})
	require.InDelta(t, 1, l.spent, 0)
	require.False(t, l.observe(step(1, 1), false, 1, 1, 0))
	l.observe(step(9, 1), true, 1, 1, 0)
	require.InDelta(t, 1.05, l.slow, 1e-12, "one step changes the factor little")
	l.observe(step(0.1, 1), true, 1, 1, 0)
	require.InDelta(t, 1.05-0.05*0.55, l.slow, 1e-12)
	l = newLedger(1, false)
	l.spent, l.last, l.lost = 1e6, 1, 66
	require.True(t, l.allows(), "the budget is limited to 64 steps")
	l.lost = 66.1
	require.False(t, l.allows())
}

// What drafts cost and save is measured against the duration of steps in flight, which can differ
// from the estimate. Steps that take long, such as the first ones of a kind, count little.
func TestPaceOfSteps(t *testing.T) {
	t.Parallel()
	plain := func(seconds float64, n int) Step {
		return Step{Size: cost.Size{Rows: 4, Outputs: 4}, Seconds: seconds, Steps: n}
	}
	prompt := func(seconds float64) Step {
		return Step{Size: cost.Size{Rows: 9, Outputs: 4}, Seconds: seconds, Steps: 1}
	}
	l := newLedger(3, false)
	require.InDelta(t, 1, l.relative(), 0)
	l.observe(prompt(4), false, 5, 5, 0)
	require.InDeltaSlice(t, []float64{0.8, 0.8}, []float64{l.paceOf(1), l.paceOf(0)}, 1e-9)
	for range 20 {
		l.observe(plain(3, 8), false, 4, 4, 0)
	}
	require.InDeltaSlice(t, []float64{0.8, 0.75}, []float64{l.paceOf(1), l.paceOf(0)}, 1e-3)
	l.observe(plain(100, 8), false, 4, 4, 0)
	require.InDelta(t, 0.75+0.04*1.25, l.paceOf(0), 1e-3)
	l.pace = [2]float64{0.75, 0.99}
	l.lost = 0
	require.True(t, l.observe(plain(5, 1), true, 5, 4, 2))
	require.InDelta(t, 5-0.75*4-0.75*2, l.lost, 1e-9)
	require.InDelta(t, 3, l.last, 1e-9)
	require.InDelta(t, 1/0.75, l.relative(), 1e-9)
	l.lost = 0
	require.True(t, l.observe(prompt(5), false, 4, 4, 0))
	require.InDelta(t, 5-0.99*4, l.lost, 1e-9)
	l = newLedger(3, false)
	l.compare(0.5, 1, 0)
	require.InDeltaSlice(t, []float64{0.5, 0.5}, []float64{l.paceOf(0), l.paceOf(1)}, 1e-9)
	l = newLedger(3, false)
	l.compare(1.9, 1, 0)
	require.InDelta(t, 1, l.paceOf(0), 0, "slow first steps")
	l.compare(1.9, 100, 0)
	require.InDelta(t, 1.045, l.paceOf(0), 1e-9)
	require.InDelta(t, 1, ratio(3, 0), 0, "no estimate")
}

// If the pace of steps turns out to be another one, what drafts have lost changes too.
func TestLossesFollowThePace(t *testing.T) {
	t.Parallel()
	size := cost.Size{Rows: 4, Outputs: 4}
	l := newLedger(3, false)
	l.compare(1, firstSteps, 0)
	for range 2 {
		l.observe(Step{Size: size, Seconds: 5, Steps: 1}, true, 5, 4, 2)
	}
	require.InDelta(t, 2*(5-4-2), l.lost, 1e-9)
	l.compare(0.8, 10, 0)
	require.InDelta(t, 0.9, l.paceOf(0), 1e-9)
	require.InDelta(t, 2*(5-0.9*(4+2)), l.lost, 1e-9)
	for range 100 {
		l.observe(Step{Size: size, Seconds: 5.4, Steps: 1}, true, 5, 4, 2)
	}
	l.lost = 0
	l.compare(0.8, 10, 0)
	require.InDelta(t, 0.05*firstControl*4, l.lost, 1e-9, "of the last steps")
}

// Rows that did not fit into a pass, or that have been processed, request no draft.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	pool := cache.NewPool(64, 4, cache.Groups{})
	sequence := func(n, filled, wanted int) *Sequence {
		s := &Sequence{Limit: 100, Table: pool.NewTable(), filled: filled, wanted: wanted, Computed: n - 1}
		for i := range n {
			s.Tokens = append(s.Tokens, int32(i))
		}
		require.True(t, s.Table.Grow(n))
		return s
	}
	c := &chain{rows: 8}
	a, b, d := sequence(5, 4, 2), sequence(6, 6, 2), sequence(7, 6, 0)
	c.catchUp([]*Sequence{a, b, d}, false)
	require.Equal(t, []*Sequence{a}, c.pass.seqs)
	require.Equal(t, []int32{0}, c.pass.Outputs)
	require.Equal(t, []int32{4}, c.pass.Tokens)
	a.filled = 4
	e := sequence(6, 4, 0)
	c.catchUp([]*Sequence{a, e}, true)
	require.Equal(t, []int32{4, 4}, c.pass.Tokens, "a sequence without drafts is computed up to its last token")
	require.Equal(t, []*Sequence{a}, c.pass.seqs)
	require.Equal(t, []int{5, 5}, []int{a.filled, e.filled})
	c.rows = 2
	f, g := sequence(2, 0, 1), sequence(2, 1, 1)
	f.Table, g.Table = pool.NewTable(), pool.NewTable()
	require.True(t, f.Table.Grow(2) && g.Table.Grow(2))
	c.rows = 8
	f.filled = 0
	c.catchUp([]*Sequence{f, g}, false)
	require.Equal(t, []int32{1, 2}, c.pass.Outputs)
	require.Equal(t, []int32{0, 1, 1}, c.pass.Positions)
	require.Equal(t, []int{2, 1}, []int{c.pass.Seqs[0].Rows, c.pass.Seqs[1].Rows})
}
