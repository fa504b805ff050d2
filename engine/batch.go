package engine

import "github.com/ingot-run/ingot/engine/compute"

// batch is the rows of a step and where their logits go.
type batch struct {
	compute.Batch
	seqs        []*sequence // of Batch.Seqs
	outputs     []output    // of Batch.Outputs
	promptHeads int         // rows that may still reach the output head for a prompt's log-probabilities
}

type output struct {
	seq      *sequence
	position int
}

// fill makes a step of the running sequences: a row for each that is generating, and with the rest of the budget chunks
// of prompts, in the order of admission.
func (b *batch) fill(running []*sequence, opts *Options) {
	b.reset()
	for _, s := range running {
		if s.decodes() {
			b.add(s, 1)
		}
	}
	for _, s := range running {
		left := min(opts.StepTokens-len(b.Tokens), opts.PrefillChunk)
		if !s.decodes() && left > 0 {
			b.add(s, min(left, s.wanted()-s.computed))
		}
	}
}

func (b *batch) reset() {
	b.Tokens, b.Positions, b.Seqs, b.Outputs = b.Tokens[:0], b.Positions[:0], b.Seqs[:0], b.Outputs[:0]
	clear(b.seqs)
	clear(b.outputs)
	b.seqs, b.outputs = b.seqs[:0], b.outputs[:0]
	b.promptHeads = promptOutputs
}

// add gives a sequence its next n rows, or fewer where the output head takes no more of its prompt.
func (b *batch) add(s *sequence, n int) {
	first := len(b.Tokens)
	for position := s.computed; position < s.computed+n; position++ {
		if s.scoresPrompt(position) {
			if b.promptHeads == 0 {
				break
			}
			b.promptHeads--
		}
		if s.outputs(position) {
			b.Outputs = append(b.Outputs, int32(len(b.Tokens)))
			b.outputs = append(b.outputs, output{seq: s, position: position})
		}
		b.Tokens = append(b.Tokens, s.token(position))
		b.Positions = append(b.Positions, int32(position))
	}
	s.rows = len(b.Tokens) - first
	if s.rows == 0 {
		return
	}
	s.table.Grow(s.computed + s.rows)
	b.Seqs = append(b.Seqs, compute.Seq{First: first, Rows: s.rows, Pages: s.table.Pages()})
	b.seqs = append(b.seqs, s)
}
