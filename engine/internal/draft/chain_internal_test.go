package draft

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cache"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/model"
)

var errBroken = errors.New("the device is lost")

// tape records the passes of a chain. After each token, the next larger one is the best.
type tape struct {
	model.Model
	passes []pass
	first  []bool
	best   [][]float32
	sure   float64 // probability of the best token
	err    error
}

func (m *tape) Best(int) [][]float32 { return m.best }

func (m *tape) forward(p *pass, first bool) error {
	got := pass{states: slices.Clone(p.states), seqs: slices.Clone(p.seqs)}
	got.Tokens, got.Positions, got.Outputs, got.Top = slices.Clone(p.Tokens), slices.Clone(p.Positions), slices.Clone(p.Outputs), p.Top
	for _, s := range p.Seqs {
		got.Seqs = append(got.Seqs, compute.Seq{Rows: s.Rows, Pages: slices.Clone(s.Pages), Further: slices.Clone(s.Further)})
	}
	m.passes, m.first = append(m.passes, got), append(m.first, first)
	m.best = nil
	for _, at := range p.Outputs {
		m.best = append(m.best, []float32{float32(p.Tokens[at] + 1), float32(math.Log(m.sure)), 0})
	}
	return m.err
}

func newTape(c chain) (*chain, *tape) {
	m := &tape{sure: 0.999}
	c.forward, c.model = m.forward, m
	return &c, m
}

// counting returns a sequence of n tokens, which count from 0, of which all but the last one are
// computed.
func counting(t *testing.T, pool *cache.Pool, n int) *Sequence {
	t.Helper()
	s := &Sequence{Limit: 1000, Table: pool.NewTable(), Computed: n - 1}
	for i := range n {
		s.Tokens = append(s.Tokens, int32(i))
	}
	require.True(t, s.Table.Grow(n+MaxTokens))
	return s
}

func span(from, to int32) (list []int32) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// A chain can catch up with a quarter of a pass, or with the tokens of the present step. If more is
// missing, its text begins at a later page.
func TestWhereAChainBeginsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chain                 chain
		length, filled, start int
		adopted               int // pages of 4 positions
		to                    int
		can                   bool
		origin                int // afterwards; 0 to keep it
	}{
		"a quarter of a pass":       {chain: chain{rows: 32}, length: 40, filled: 32, to: 40, can: true},
		"more than a quarter":       {chain: chain{rows: 32}, length: 40, filled: 31, to: 40, origin: 32},
		"at the end of a page":      {chain: chain{rows: 32}, length: 40, to: 33, origin: 32},
		"not before the next rows":  {chain: chain{rows: 32}, length: 40, to: 32},
		"in a page":                 {chain: chain{rows: 32}, length: 41, to: 41, origin: 36},
		"after adopted pages":       {chain: chain{rows: 32}, length: 44, adopted: 10, to: 44, origin: 40},
		"the present step":          {chain: chain{states: true}, length: 20, filled: 9, start: 9, to: 20, can: true},
		"before the present step":   {chain: chain{states: true}, length: 20, filled: 8, start: 9, to: 20, origin: 12},
		"no page begins in it":      {chain: chain{states: true}, length: 20, filled: 8, start: 9, to: 12},
		"a page ends before it":     {chain: chain{states: true}, length: 20, filled: 7, start: 8, to: 20, origin: 8},
		"attention needs no tokens": {chain: chain{states: true, attends: true}, length: 20, start: 9, to: 20, can: true},
	} {
		pool := cache.NewPool(64, 4, cache.Groups{})
		s := counting(t, pool, c.length)
		if c.adopted > 0 {
			s.Table.Commit(s.Tokens, c.length-1)
			s.Table = pool.NewTable()
			require.Equal(t, 4*c.adopted, s.Table.Adopt(s.Tokens), name)
		}
		s.filled, s.Start = c.filled, c.start
		require.Equal(t, c.can, c.chain.canCatchUp(s), name)
		c.chain.restart(s, c.to)
		if c.origin > 0 {
			require.Equal(t, []int{c.origin, c.origin}, []int{s.origin, s.filled}, name)
		} else {
			require.Equal(t, []int{0, c.filled}, []int{s.origin, s.filled}, name)
		}
	}
	for _, c := range []struct{ drafted, accepted, retained int }{{3, 3, 2}, {3, 2, 2}, {3, 1, 1}, {1, 1, 0}, {1, 0, 0}} {
		require.Equal(t, c.retained, (&chain{}).retained(c.drafted, c.accepted), "%+v", c)
		require.Zero(t, (&chain{states: true}).retained(c.drafted, c.accepted))
	}
}

// The passes of a chain: first the known tokens, then draft by draft. Positions count from the page
// at which the chain's text begins.
func TestPassesOfAChain(t *testing.T) {
	t.Parallel()
	type rows struct {
		tokens, positions, states []int32
		firstPage                 int // index in the table
	}
	for name, c := range map[string]struct {
		chain chain
		want  []rows
	}{
		"a small model": {chain{rows: 32}, []rows{
			{span(12, 20), span(4, 12), span(2, 10), 2}, {[]int32{20}, []int32{12}, []int32{0}, 2}, {[]int32{21}, []int32{13}, []int32{0}, 2},
		}},
		"an MTP layer": {chain{rows: 32, shift: 1, states: true}, []rows{
			{span(13, 20), span(4, 11), span(2, 9), 2}, {[]int32{20}, []int32{11}, []int32{0}, 2}, {[]int32{21}, []int32{12}, []int32{0}, 2},
		}},
		"an assistant": {chain{rows: 32, shift: 1, states: true, attends: true}, []rows{
			{[]int32{19}, []int32{18}, []int32{8}, 0}, {[]int32{20}, []int32{19}, []int32{0}, 0}, {[]int32{21}, []int32{20}, []int32{0}, 0},
		}},
	} {
		pool := cache.NewPool(64, 4, cache.Groups{})
		s := counting(t, pool, 20)
		s.origin, s.filled, s.Start, s.FirstRow, s.wanted = 8, 12, 12, 2, 3
		if c.chain.attends {
			s.origin = 0
		}
		ch, m := newTape(c.chain)
		require.NoError(t, ch.run([]*Sequence{s}, true, &cost.Curve{}, nil), name)
		require.Len(t, m.passes, len(c.want), name)
		for i, want := range c.want {
			p := m.passes[i]
			require.Equal(t, want, rows{p.Tokens, p.Positions, p.states, want.firstPage}, "%s: pass %d", name, i)
			require.Equal(t, s.Table.Pages()[want.firstPage:], p.Seqs[0].Pages, name)
			require.Equal(t, c.chain.attends, p.Seqs[0].Further != nil, name)
			require.Equal(t, []int{len(p.Tokens), 1, 1}, []int{p.Seqs[0].Rows, len(p.Seqs), p.Top}, name)
			require.Equal(t, []int32{int32(len(p.Tokens) - 1)}, p.Outputs, name)
			require.Equal(t, i == 0, m.first[i], name)
		}
		require.Equal(t, []int32{20, 21, 22}, s.Drafts, name)
	}
}

// Passes leave out sequences that draft nothing, unless all are to be processed, and what does not
// fit into a pass gets no draft.
func TestWhatAPassProcesses(t *testing.T) {
	t.Parallel()
	type state struct{ filled, drafts int }
	for name, c := range map[string]struct {
		chain chain
		all   bool
		want  []state // of three sequences of 5 tokens
		rows  []int   // of the first pass
	}{
		"those that draft":         {chain{rows: 64}, false, []state{{5, 1}, {5, 1}, {0, 0}}, []int{5, 5}},
		"all":                      {chain{rows: 64}, true, []state{{5, 1}, {5, 1}, {4, 0}}, []int{5, 5, 4}},
		"no room for the third":    {chain{rows: 10, states: true}, true, []state{{5, 1}, {5, 1}, {0, 0}}, []int{5, 5}},
		"some room for the third":  {chain{rows: 13, states: true}, true, []state{{5, 1}, {5, 1}, {3, 0}}, []int{5, 5, 3}},
		"some room for the second": {chain{rows: 9, states: true}, true, []state{{5, 1}, {4, 0}, {0, 0}}, []int{5, 4}},
		"an assistant":             {chain{rows: 64, shift: 1, states: true, attends: true}, true, []state{{3, 1}, {3, 1}, {0, 0}}, []int{1, 1}},
	} {
		pool := cache.NewPool(64, 4, cache.Groups{})
		ch, m := newTape(c.chain)
		var seqs []*Sequence
		for i := range 3 {
			s := counting(t, pool, 5)
			if s.wanted = 1; i == 2 {
				s.wanted = 0
			}
			seqs = append(seqs, s)
		}
		require.NoError(t, ch.run(seqs, c.all, &cost.Curve{}, nil), name)
		var got []state
		for _, s := range seqs {
			got = append(got, state{s.filled, len(s.Drafts)})
		}
		require.Equal(t, c.want, got, name)
		var rows []int
		for _, s := range m.passes[0].Seqs {
			rows = append(rows, s.Rows)
		}
		require.Equal(t, c.rows, rows, name)
	}
}

// A chain ends with the error of a pass, and without a pass if there is nothing to process.
func TestPassesThatFail(t *testing.T) {
	t.Parallel()
	pool := cache.NewPool(64, 4, cache.Groups{})
	ch, m := newTape(chain{rows: 64})
	m.err = errBroken
	s := counting(t, pool, 5)
	s.wanted = 2
	require.ErrorIs(t, ch.run([]*Sequence{s}, false, &cost.Curve{}, nil), errBroken)
	require.Empty(t, s.Drafts)
	require.ErrorIs(t, ch.prefill([]*Sequence{{Tokens: span(0, 9), Rows: 4, Limit: 100, Table: s.Table}}), errBroken)
	require.Len(t, m.passes, 2)
	require.Empty(t, m.passes[1].Outputs)
	require.NoError(t, ch.run(nil, true, &cost.Curve{}, nil))
	require.NoError(t, ch.prefill(nil))
	require.Len(t, m.passes, 2)
}

// The duration of a pass corrects the estimate, of which each sequence bears its share.
func TestDurationsOfPasses(t *testing.T) {
	t.Parallel()
	pool := cache.NewPool(64, 4, cache.Groups{})
	for row, want := range map[float64]int{0.79: 2, 0.81: 1} { // a draft is worth 0.997 and costs its row and half a pass of 0.4
		ch, _ := newTape(chain{rows: 64})
		var gates [kinds]learned
		gates[0].gate, gates[1].gate = newGate(), newGate()
		gates[0].gate.Token, gates[0].gate.Row, gates[1].gate.Token = 1, row, 1
		passes := cost.NewCurve([]int{2}, []float64{0.4})
		a, b := counting(t, pool, 5), counting(t, pool, 5)
		a.wanted, b.wanted, b.Temperature = 2, 2, 0.4
		b.StopIDs = []int32{5}
		require.NoError(t, ch.run([]*Sequence{a, b}, false, &passes, &gates))
		require.Len(t, a.Drafts, want)
		require.Equal(t, want == 1, a.gated)
		require.Equal(t, []int32{5}, b.Drafts, "nothing follows a stop token")
		require.Less(t, passes.Seconds(2), 0.4, "the passes took less")
	}
}

// The rows of prompts that a step has computed are processed without drafts.
func TestPromptsOfAStepAreProcessed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chain                          chain
		filled, start, computed, extra int // extra is the number of the prompt's rows in the step
		firstRow                       int
		tokens, positions, states      []int32
		origin, to                     int
	}{
		"all rows of an MTP layer":      {chain: chain{rows: 64, shift: 1, states: true}, extra: 6, tokens: span(1, 7), positions: span(0, 6), states: span(0, 6), to: 6},
		"but for the last token":        {chain: chain{rows: 64, shift: 1, states: true}, filled: 12, start: 12, computed: 12, extra: 8, firstRow: 3, tokens: span(13, 20), positions: span(12, 19), states: span(3, 10), to: 19},
		"as many as a pass has":         {chain: chain{rows: 4, shift: 1, states: true}, extra: 6, tokens: span(1, 5), positions: span(0, 4), states: span(0, 4), to: 4},
		"from the next page on":         {chain: chain{rows: 64, shift: 1, states: true}, start: 5, computed: 5, extra: 6, tokens: span(9, 12), positions: span(0, 3), states: span(3, 6), origin: 8, to: 11},
		"no page begins":                {chain: chain{rows: 64, shift: 1, states: true}, start: 5, computed: 5, extra: 3},
		"all rows of a small model":     {chain: chain{rows: 64}, extra: 6, tokens: span(0, 6), positions: span(0, 6), states: span(0, 6), to: 6},
		"a small model that is behind":  {chain: chain{rows: 64}, filled: 3, start: 4, computed: 4, extra: 6, to: 3},
		"an assistant needs no prompts": {chain: chain{rows: 64, shift: 1, states: true, attends: true}, extra: 6},
	} {
		s := counting(t, cache.NewPool(64, 4, cache.Groups{}), 20)
		s.filled, s.Start, s.Computed, s.Rows, s.FirstRow = c.filled, c.start, c.computed, c.extra, c.firstRow
		ch, m := newTape(c.chain)
		require.NoError(t, ch.prefill([]*Sequence{s}), name)
		require.Equal(t, []int{c.origin, c.to}, []int{s.origin, s.filled}, name)
		if c.tokens == nil {
			require.Empty(t, m.passes, name)
			continue
		}
		require.Len(t, m.passes, 1, name)
		p := m.passes[0]
		require.Equal(t, [][]int32{c.tokens, c.positions, c.states}, [][]int32{p.Tokens, p.Positions, p.states}, name)
		require.Equal(t, s.Table.Pages()[c.origin/4:], p.Seqs[0].Pages, name)
		require.Equal(t, []bool{true}, m.first, name)
	}
	a, b := counting(t, cache.NewPool(64, 4, cache.Groups{}), 20), counting(t, cache.NewPool(64, 4, cache.Groups{}), 20)
	a.Computed, a.Rows, b.Computed, b.Rows = 0, 6, 0, 6
	ch, m := newTape(chain{rows: 8, shift: 1, states: true})
	require.NoError(t, ch.prefill([]*Sequence{a, b}))
	require.Equal(t, []int{6, 2}, []int{a.filled, b.filled}, "the prompts share the rows of a pass")
	require.Len(t, m.passes[0].Tokens, 8)
}

// The likeliest token has the probability that its logit gives, and none if the logits are not
// finite.
func TestLikeliestToken(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for want, row := range map[float64][]float32{0.25: {7, float32(math.Log(0.25)), 0}, math.Exp(-1): {7, 3, 4}, 0: {7, 3, nan}, 1: {7, 3, 3}} {
		id, probability := likeliest(row)
		require.Equal(t, int32(7), id)
		require.InDelta(t, want, probability, 1e-6)
	}
	_, probability := likeliest([]float32{7, 3, inf})
	require.Zero(t, probability)
}

// drafter is a model that records how it is called.
type drafter struct {
	tape
	config  model.Config
	forward []int // rows of the calls of Forward
	sources []model.States
	steps   []int // second arguments of Decode
	broken  bool  // Forward fails
}

func (d *drafter) Config() model.Config { return d.config }

func (d *drafter) Forward(b *compute.Batch) ([][]float32, error) {
	if d.broken {
		return nil, errBroken
	}
	d.forward = append(d.forward, len(b.Tokens))
	return nil, nil
}

func (d *drafter) Decode(b *compute.Batch, n int) error {
	d.steps = append(d.steps, n)
	return d.tape.forward(&pass{Batch: *b}, false)
}

func (d *drafter) Draft(b *compute.Batch, from model.States, states []int32) error {
	d.sources = append(d.sources, from)
	return d.tape.forward(&pass{Batch: *b, states: states}, false)
}

// An MTP layer reads the states of the model first, and then its own. A small model runs single
// steps.
func TestModelsOfChains(t *testing.T) {
	t.Parallel()
	pool := cache.NewPool(64, 4, cache.Groups{})
	d := &drafter{tape: tape{sure: 0.9}}
	s := counting(t, pool, 5)
	s.wanted = 3
	c := newMTPChain(d, false, 64)
	require.NoError(t, c.run([]*Sequence{s}, false, &cost.Curve{}, nil))
	require.Equal(t, []int32{5, 6, 7}, s.Drafts)
	require.Equal(t, []model.States{model.TrunkStates, model.DraftStates, model.DraftStates}, d.sources)
	require.Equal(t, span(1, 5), d.passes[0].Tokens)
	require.Equal(t, span(0, 4), d.passes[0].states)
	d.err = errBroken
	s = counting(t, pool, 5)
	s.wanted = 3
	require.Equal(t, errBroken, c.run([]*Sequence{s}, false, &cost.Curve{}, nil))

	d = &drafter{tape: tape{sure: 0.9}}
	s = counting(t, pool, 5)
	s.wanted = 2
	c = newModelChain(d, 64)
	require.NoError(t, c.run([]*Sequence{s}, false, &cost.Curve{}, nil))
	require.Equal(t, []int32{5, 6}, s.Drafts)
	require.Equal(t, []int{1, 1}, d.steps)
	require.Equal(t, span(0, 5), d.passes[0].Tokens)
	d.err = errBroken
	s = counting(t, pool, 5)
	s.wanted = 2
	err := c.run([]*Sequence{s}, false, &cost.Curve{}, nil)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "draft with the small model")
}

// The cost of passes is measured after a step with as many rows as the largest pass, in which all
// groups of layers use the same pages.
func TestPassesAreMeasured(t *testing.T) {
	t.Parallel()
	limits := model.Limits{Rows: 64, Context: 100, FreeWindows: true}
	config := model.Config{Vocab: 1000, Layers: 4, Sliding: 2, Window: 8}
	groups := config.Groups(limits)
	require.Equal(t, 2, groups.Full+groups.Sliding)
	steps := cost.NewSteps(cost.NewCurve([]int{1, 4, 8}, []float64{1, 1, 1}), 0, 0, 0)
	for name, c := range map[string]func(o *Options, d *drafter){
		"MTP":   func(o *Options, d *drafter) { o.MTP = d },
		"small": func(o *Options, d *drafter) { o.Small = d },
	} {
		d := &drafter{config: config}
		o := Options{Model: d, Limits: limits, Steps: steps}
		c(&o, d)
		sp, err := New(o)
		require.NoError(t, err, name)
		require.Equal(t, []int{8}, d.forward, name)
		rows := map[int]int{}
		for _, p := range d.passes {
			rows[len(p.Tokens)]++
			require.Equal(t, name == "MTP", p.states != nil)
			for i, seq := range p.Seqs {
				require.Equal(t, [][]int32{seq.Pages}, seq.Further, name)
				require.Equal(t, []int32{int32(i)}, seq.Pages, name)
			}
			if p.states != nil {
				require.Equal(t, span(0, int32(len(p.Tokens))), p.states)
			}
		}
		require.Len(t, rows, 3, name)
		for _, n := range []int{1, 4, 8} {
			require.Positive(t, sp.planner.Pass.Seconds(n), name)
		}
		require.InDelta(t, passPatience, sp.trials.patience, 0, name)
		require.False(t, sp.catchesUp(), "nothing is drafted before it is known to be worth its cost")

		for _, broken := range []bool{true, false} {
			d := &drafter{config: config, broken: broken, tape: tape{err: errBroken}}
			o := Options{Model: d, Limits: limits, Steps: steps}
			c(&o, d)
			_, err := New(o)
			require.ErrorIs(t, err, errBroken, name)
			require.ErrorContains(t, err, "measure the cost of drafting", name)
		}
	}
	sp, err := New(Options{NGram: true, Steps: steps, MaxInFlight: 4})
	require.NoError(t, err)
	require.InDelta(t, textPatience, sp.trials.patience, 0)
	require.Equal(t, 6, sp.trials.ramp)
	require.Nil(t, sp.chain)
	require.Zero(t, sp.planner.Pass.Seconds(4))
}
