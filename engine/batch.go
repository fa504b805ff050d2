package engine

import (
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
)

// batch is the rows of a step and where their logits go.
type batch struct {
	compute.Batch
	seqs    []*sequence // of Batch.Seqs
	outputs []output    // of Batch.Outputs
}

// output is a row that reaches the output head.
type output struct {
	seq      *sequence
	position int
	drafts   int // drafted tokens that the row follows
	row      int // among the outputs of a step
	needs    int // how many of the highest logits the sequence takes from it; 0 for all logits
}

// fill makes a step of the rows that the running sequences were given. top is the most of the highest logits that can be
// asked for.
func (b *batch) fill(running []*sequence, top int) {
	b.Tokens, b.Positions, b.Seqs, b.Outputs = b.Tokens[:0], b.Positions[:0], b.Seqs[:0], b.Outputs[:0]
	clear(b.seqs)
	clear(b.outputs)
	b.seqs, b.outputs, b.Top = b.seqs[:0], b.outputs[:0], 0
	for _, s := range running {
		if s.rows > 0 {
			b.add(s, top)
		}
	}
}

// hasPrompts tells whether a sequence does more than decode.
func (b *batch) hasPrompts() bool {
	return slices.ContainsFunc(b.seqs, func(s *sequence) bool { return !s.decodes() })
}

func (b *batch) add(s *sequence, top int) {
	s.first = len(b.Tokens)
	b.Seqs = append(b.Seqs, compute.Seq{Rows: s.rows, Pages: s.table.Pages()})
	b.seqs = append(b.seqs, s)
	for position := s.computed; position < s.computed+s.rows; position++ {
		if s.outputs(position) {
			o := output{seq: s, position: position, drafts: max(0, position+1-s.length()), row: len(b.outputs)}
			if !s.scoresPrompt(position) {
				o.needs = s.needs(o.drafts, top)
			}
			b.Top = max(b.Top, o.needs)
			b.Outputs = append(b.Outputs, int32(len(b.Tokens)))
			b.outputs = append(b.outputs, o)
		}
		b.Tokens = append(b.Tokens, s.token(position))
		b.Positions = append(b.Positions, int32(position))
	}
}
