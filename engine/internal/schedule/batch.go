package schedule

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cost"
	"github.com/ingot-run/ingot/engine/internal/sample"
	"github.com/ingot-run/ingot/engine/model"
)

// batch has the rows of a step and the sequences that get their results.
type batch struct {
	compute.Batch
	seqs    []*sequence // the sequence of each element of Batch.Seqs
	outputs []output    // the output of each element of Batch.Outputs
	logits  [][]float32 // [outputs][vocabulary]; nil until an output needs them
	best    [][]float32 // [outputs] the highest logits of the step that is being delivered; nil until an output needs them
}

// fill makes the batch from the rows that queue.plan gave to the running sequences. limit is the maximum of Batch.Top.
func (b *batch) fill(running []*sequence, limit int) {
	b.Tokens, b.Positions, b.Seqs, b.Outputs = b.Tokens[:0], b.Positions[:0], b.Seqs[:0], b.Outputs[:0]
	clear(b.seqs)
	clear(b.outputs)
	b.seqs, b.outputs, b.logits, b.best, b.Top = b.seqs[:0], b.outputs[:0], nil, nil, 0
	for _, s := range running {
		if s.Rows > 0 {
			b.add(s, limit)
		}
	}
}

func (b *batch) add(s *sequence, limit int) {
	s.FirstRow = len(b.Tokens)
	b.Seqs = append(b.Seqs, compute.Seq{Rows: s.Rows, Pages: s.Table.Pages(), Further: s.Table.Further()})
	b.seqs = append(b.seqs, s)
	for position := s.Computed; position < s.Computed+s.Rows; position++ {
		if s.outputs(position) {
			o := output{seq: s, position: position, drafts: max(0, position+1-s.Length()), row: len(b.outputs)}
			if !s.scoresPrompt(position) {
				o.top = s.needs(o.drafts, limit)
			}
			b.Top = max(b.Top, o.top)
			b.Outputs = append(b.Outputs, int32(len(b.Tokens)))
			b.outputs = append(b.outputs, o)
		}
		b.Tokens = append(b.Tokens, s.Token(position))
		b.Positions = append(b.Positions, int32(position))
	}
}

// size returns the quantities on which the duration of the step depends.
func (b *batch) size() cost.Size {
	z := cost.Size{Rows: len(b.Tokens), Outputs: len(b.Outputs)}
	for _, position := range b.Positions {
		z.Reads += int(position) + 1
	}
	return z
}

// advance turns the batch of one step in flight into the batch of the next one. It removes the sequences that have ended and reports
// whether any are left.
func (b *batch) advance() bool {
	n := 0
	for _, o := range b.outputs {
		s := o.seq
		if s.ended() || s.stale {
			continue
		}
		o.position++
		s.Start = s.Computed
		b.seqs[n], b.outputs[n] = s, o
		n++
	}
	clear(b.seqs[n:])
	clear(b.outputs[n:])
	b.seqs, b.outputs, b.best = b.seqs[:n], b.outputs[:n], nil
	return n > 0
}

// result returns what the step that is being delivered computed for an output. step is its index among the steps in flight. The highest
// logits of all outputs are read together, since some devices take long for each read.
func (b *batch) result(m model.Model, o output, step int) (r result) {
	r = result{batch: b, model: m, row: o.row}
	if o.top > 0 {
		if b.best == nil {
			b.best = m.Best(step)
		}
		r.best = sample.ReadBest(b.best[o.row], b.Top)
	}
	return r
}

// result has the logits that a step computed for an output.
type result struct {
	best  sample.Best // the highest logits; empty if the output needs all of them
	batch *batch
	model model.Model
	row   int
}

// logits returns all logits of the row. Few outputs need them, and some devices are slow to return them, so they are read when the first
// output of a step needs them. They are not available if several steps are in flight.
func (r result) logits() []float32 {
	if r.batch.logits == nil {
		r.batch.logits = r.model.Logits()
	}
	return r.batch.logits[r.row]
}
