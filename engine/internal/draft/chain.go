package draft

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// chain drafts by passes of the model's MTP layer or of a small model. The first pass processes the
// known tokens that the chain has not processed yet, and gives each sequence's first draft. Each
// further pass processes the drafts of the previous pass. The KV cache of the MTP layer or small
// model uses the page tables of the model.
type chain struct {
	// forward runs a pass. first reports whether it is the first pass after a step. Afterwards,
	// model.Best has the highest logit of each output.
	forward func(p *pass, first bool) error
	model   model.Model
	// shift is 1 for an MTP layer, which processes at each position the token of the next position,
	// and 0 for a small model.
	shift int
	// states reports whether a pass reads the hidden states of the step before it. If so, there
	// must be a pass after every step, unless attends is set.
	states bool
	// attends reports whether the passes attend to the model's keys and values and store none, so
	// that known tokens need not be processed.
	attends bool
	rows    int // maximum number of rows of a pass

	pass, next pass
}

func newMTPChain(m model.Drafter, attends bool, rows int) *chain {
	return &chain{shift: 1, states: true, attends: attends, rows: rows, model: m, forward: func(p *pass, first bool) error {
		from := model.DraftStates
		if first {
			from = model.TrunkStates
		}
		return m.Draft(&p.Batch, from, p.states)
	}}
}

func newModelChain(m model.Model, rows int) *chain {
	return &chain{rows: rows, model: m, forward: func(p *pass, _ bool) error {
		if err := m.Decode(&p.Batch, 1); err != nil {
			return fmt.Errorf("draft with the small model: %w", err)
		}
		return nil
	}}
}

type pass struct {
	compute.Batch
	states []int32     // [rows] index of each row's hidden state: a row of the step in the first pass, an output of the previous pass later
	seqs   []*Sequence // [outputs] the sequences that get the drafts
}

func (p *pass) reset() {
	p.Tokens, p.Positions, p.Seqs, p.Outputs = p.Tokens[:0], p.Positions[:0], p.Seqs[:0], p.Outputs[:0]
	clear(p.seqs)
	p.states, p.seqs = p.states[:0], p.seqs[:0]
	p.Top = 1
}

func (p *pass) begin(pages []int32, further [][]int32) {
	p.Seqs = append(p.Seqs, compute.Seq{Pages: pages, Further: further})
}

// row adds a row to the sequence that was added last. state is the index of the hidden state that
// the row reads.
func (p *pass) row(token int32, position int, state int32) {
	p.Tokens = append(p.Tokens, token)
	p.Positions = append(p.Positions, int32(position))
	p.states = append(p.states, state)
	p.Seqs[len(p.Seqs)-1].Rows++
}

func (p *pass) output(s *Sequence) {
	p.Outputs = append(p.Outputs, int32(len(p.Tokens)-1))
	p.seqs = append(p.seqs, s)
}

// canCatchUp reports whether the chain can process all of a sequence's known tokens that it has not
// processed. An MTP layer can process only tokens of the present step, because it needs their
// hidden states. For a small model, the tokens may take at most a quarter of the rows of a pass,
// which leaves rows for other sequences.
func (c *chain) canCatchUp(s *Sequence) bool {
	if c.states {
		return c.attends || s.filled >= s.Start
	}
	return s.Length()-s.filled <= c.rows/4
}

// restart moves a sequence's origin to a later page if the chain can no longer process all known
// tokens. The origin stays if that page does not begin before the position in to. After a move, the
// chain processes the text as if it began at that page. An MTP layer loses little by this, because
// the hidden states that it reads depend on the whole text.
func (c *chain) restart(s *Sequence, to int) {
	if c.canCatchUp(s) {
		return
	}
	size, from := s.Table.PageSize(), s.Start
	if !c.states {
		from = max(s.filled, s.Length()-c.rows/4, s.Table.Adopted()*size) // adopted pages may be shared and must not be overwritten
	}
	if from = (from + size - 1) / size * size; from < to {
		s.origin, s.filled = from, from
	}
}

// retained returns the number of positions that the chain computed from drafts that were accepted,
// and need not compute again.
func (c *chain) retained(drafted, accepted int) int {
	if c.states {
		// The chain used the MTP layer's hidden states for these positions. It computes them a
		// second time from the model's hidden states, which are better.
		return 0
	}
	return min(accepted, drafted-1)
}

// run processes the known tokens of a step's sequences and drafts the wanted number of tokens for
// each sequence. If all is true, it also processes sequences for which nothing is to be drafted.
// passes estimates the durations of passes, and run corrects these estimates. If gates is not nil,
// the gate of a sequence's kind may end the drafting for the sequence early.
func (c *chain) run(step []*Sequence, all bool, passes *cost.Curve, gates *[kinds]learned) error {
	c.catchUp(step, all)
	for depth := 0; len(c.pass.Tokens) > 0; depth++ {
		start := time.Now()
		if err := c.forward(&c.pass, depth == 0); err != nil {
			return err
		}
		if len(c.pass.seqs) == 0 {
			return nil // the pass only processed known tokens
		}
		c.next.reset()
		seconds := passes.Seconds(len(c.pass.seqs)) / float64(len(c.pass.seqs))
		best := c.model.Best(0)
		for i, s := range c.pass.seqs {
			token, confidence := likeliest(best[i])
			var gate *gate
			if gates != nil {
				gate = &gates[s.kind()].gate
			}
			if _, stops := slices.BinarySearch(s.StopIDs, token); s.add(token, confidence, seconds, gate) && !stops {
				c.next.begin(c.tables(s))
				c.next.row(token, s.Length()-c.shift+depth-s.origin, int32(i))
				c.next.output(s)
			}
		}
		passes.Observe(len(c.pass.seqs), time.Since(start).Seconds())
		c.pass, c.next = c.next, c.pass
	}
	return nil
}

// tables returns the page tables with which the chain computes a sequence. An MTP layer and a small
// model have one group of layers.
func (c *chain) tables(s *Sequence) (pages []int32, further [][]int32) {
	if c.attends {
		return s.Table.Pages(), s.Table.Further()
	}
	return s.pages(), nil
}

// prefill processes the prompts of a step whose results have not been delivered yet, without making
// drafts.
func (c *chain) prefill(prompts []*Sequence) error {
	if c.attends {
		return nil
	}
	c.pass.reset()
	left := c.rows
	for _, s := range prompts {
		to := min(s.Computed+s.Rows, s.Length()-c.shift)
		if c.states {
			c.restart(s, to)
		}
		if s.filled >= s.Start {
			left -= c.add(s, min(to, s.filled+left))
		}
	}
	if len(c.pass.Tokens) == 0 {
		return nil
	}
	return c.forward(&c.pass, true)
}

// add adds a sequence's positions [s.filled, to) to the pass. The chain has not processed them yet.
// add returns their number.
func (c *chain) add(s *Sequence, to int) int {
	n := to - s.filled
	if n <= 0 {
		return 0
	}
	c.pass.begin(c.tables(s))
	for p := s.filled; p < to; p++ {
		c.pass.row(s.Tokens[p+c.shift], p-s.origin, int32(s.FirstRow+p-s.Start))
	}
	if !c.attends {
		s.process(n)
	}
	return n
}

// catchUp puts the known positions that the chain has not processed into the first pass, and
// requests the first drafts. If all is true, it includes the sequences for which nothing is to be
// drafted.
func (c *chain) catchUp(step []*Sequence, all bool) {
	c.pass.reset()
	left := c.rows
	for _, s := range step {
		drafts := s.wanted > 0
		if c.attends {
			if !drafts {
				continue
			}
			s.filled = s.Length() - c.shift - 1 // the last token alone
		}
		if all {
			c.restart(s, s.Computed)
		}
		if !all && !drafts || !c.canCatchUp(s) {
			continue
		}
		to := s.Computed
		if drafts {
			to = s.Length() - c.shift
		}
		to = min(to, s.filled+left)
		n := c.add(s, to)
		if n == 0 {
			continue
		}
		left -= n
		if drafts && to == s.Length()-c.shift {
			c.pass.output(s)
		}
	}
}

// likeliest returns the likeliest token of a row of model.Best, and its probability; 0 if the
// logits are not finite.
func likeliest(row []float32) (id int32, probability float64) {
	b := sample.ReadBest(row, 1)
	sum, err := b.LogSumExp()
	if err != nil {
		return b.ID(0), 0
	}
	return b.ID(0), math.Exp(float64(b.Logit(0)) - sum)
}
