package engine

import (
	"math"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/sample"
)

// chain drafts by passes of the model's MTP layer or of a small model: the first pass takes in the tokens that have become
// known and gives each sequence's first draft, each further one takes in the draft before it. The cache of the layer or
// model has the page tables of the trunk's.
type chain struct {
	// forward runs a pass; first tells the first of a chain. model then has the best logit of each of its outputs.
	forward func(p *pass, first bool) error
	model   model.Model
	// shift is how far the token that a position takes in is ahead of it: 1 for an MTP layer, 0 for a model.
	shift int
	// states tells that a pass takes the hidden states of the step before it, and so can leave no step out.
	states bool
	rows   int // most rows of a pass

	pass, next pass
}

// newMTPChain drafts by the MTP layer of a model.
func newMTPChain(m model.Drafter, rows int) *chain {
	return &chain{shift: 1, states: true, rows: rows, model: m, forward: func(p *pass, first bool) error {
		from := model.DraftStates
		if first {
			from = model.TrunkStates
		}
		_, err := m.Draft(&p.Batch, from, p.states)
		return err
	}}
}

// newModelChain drafts by a small model.
func newModelChain(m model.Model, rows int) *chain {
	return &chain{rows: rows, model: m, forward: func(p *pass, _ bool) error {
		_, err := m.Forward(&p.Batch)
		return err
	}}
}

// pass is the rows of one pass.
type pass struct {
	compute.Batch
	states []int32     // [rows] row of the step, or output of the pass before, whose hidden state is taken
	seqs   []*sequence // [outputs]
}

func (p *pass) reset() {
	p.Tokens, p.Positions, p.Seqs, p.Outputs = p.Tokens[:0], p.Positions[:0], p.Seqs[:0], p.Outputs[:0]
	clear(p.seqs)
	p.states, p.seqs = p.states[:0], p.seqs[:0]
	p.Top = 1
}

// begin starts the rows of a sequence.
func (p *pass) begin(s *sequence) {
	p.Seqs = append(p.Seqs, compute.Seq{Pages: s.table.Pages()})
}

func (p *pass) row(token int32, position int, state int32) {
	p.Tokens = append(p.Tokens, token)
	p.Positions = append(p.Positions, int32(position))
	p.states = append(p.states, state)
	p.Seqs[len(p.Seqs)-1].Rows++
}

// output wants a draft of the last row.
func (p *pass) output(s *sequence) {
	p.Outputs = append(p.Outputs, int32(len(p.Tokens)-1))
	p.seqs = append(p.seqs, s)
}

// reaches tells whether a sequence can be drafted for: nothing of it was left out that cannot be made up for.
func (c *chain) reaches(s *sequence) bool {
	if c.states {
		return s.draft.filled >= s.from
	}
	return s.length()-s.draft.filled <= c.rows/4
}

// kept is the number of a chain's own positions that stay in its cache once some of its drafts were accepted.
func (c *chain) kept(drafted, accepted int) int {
	if c.states {
		return 0 // they were computed from the layer's own states; the trunk's are better
	}
	return min(accepted, drafted-1)
}

// run follows the sequences of step b and drafts what they want. Those that want nothing are followed only where keepUp is
// set.
//
// Where gate is not nil, it may end a chain earlier.
func (c *chain) run(b *batch, keepUp bool, cost *draft.Cost, gate *draft.Gate) error {
	c.follow(b, keepUp)
	for depth := 0; len(c.pass.Tokens) > 0; depth++ {
		start := time.Now()
		if err := c.forward(&c.pass, depth == 0); err != nil {
			return err
		}
		c.next.reset()
		pass := cost.Seconds(len(c.pass.seqs)) / float64(max(len(c.pass.seqs), 1))
		for i, s := range c.pass.seqs {
			token, sure := c.best(i)
			if s.draft.add(token, sure, pass, gate) && !slices.Contains(s.call.stopIDs, token) { // nothing follows the end
				c.next.begin(s)
				c.next.row(token, s.length()-c.shift+depth, int32(i))
				c.next.output(s)
			}
		}
		if len(c.pass.seqs) > 0 {
			cost.Observe(len(c.pass.seqs), time.Since(start).Seconds())
		}
		c.pass, c.next = c.next, c.pass
	}
	return nil
}

// fill takes in the prompts of a step before its logits are handed out: none of it depends on them, and where nothing is
// drafted, much of a pass is not needed.
func (c *chain) fill(b *batch) error {
	c.pass.reset()
	left := c.rows
	for i, s := range b.seqs {
		if s.draft.filled == s.from && !s.decodes() {
			left -= c.take(b, i, min(s.computed+s.rows, s.length()-c.shift, s.draft.filled+left))
		}
	}
	if len(c.pass.Tokens) == 0 {
		return nil
	}
	return c.forward(&c.pass, true)
}

// take adds the rows of the i-th sequence of a step from where it was followed last, up to a position, and returns their
// number.
func (c *chain) take(b *batch, i, to int) int {
	s := b.seqs[i]
	d := &s.draft
	n := to - d.filled
	if n <= 0 {
		return 0
	}
	c.pass.begin(s)
	for ; d.filled < to; d.filled++ {
		c.pass.row(s.tokens[d.filled+c.shift], d.filled, int32(s.first+d.filled-s.from))
	}
	return n
}

// follow makes the first pass: for each sequence the positions from where it was followed last to what is known.
func (c *chain) follow(b *batch, keepUp bool) {
	c.pass.reset()
	left := c.rows
	for i, s := range b.seqs {
		d := &s.draft
		drafts := d.wanted > 0
		if s.reason != "" || s.call.err != nil || !keepUp && !drafts || !c.reaches(s) {
			continue
		}
		to := s.computed
		if drafts {
			to = s.length() - c.shift
		}
		to = min(to, d.filled+left)
		n := c.take(b, i, to)
		if n == 0 {
			continue
		}
		left -= n
		if drafts && to == s.length()-c.shift {
			c.pass.output(s)
		}
	}
}

// best is the likeliest token of an output of the last pass, and its probability: 0 where the logits are not finite.
func (c *chain) best(output int) (id int32, probability float64) {
	b := sample.ReadBest(c.model.Best(0)[output], 1)
	sum, err := b.LogSumExp()
	if err != nil {
		return b.ID(0), 0
	}
	return b.ID(0), math.Exp(float64(b.Logit(0)) - sum)
}
