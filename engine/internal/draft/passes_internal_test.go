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
			sp.trials = drafting()
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
