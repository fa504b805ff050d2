package cost

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/model"
)

// recurrent returns a model whose batches need not say what to do with recurrent states.
func recurrent(m model.Model, limits model.Limits) model.Model {
	if m.Config().States.Layers == 0 {
		return m
	}
	return &recurrentModel{m, limits.States}
}

type recurrentModel struct {
	model.Model
	slots int
}

// Decode gives each sequence a state. Sequences of one row that are more than the slots become
// prompts of several rows.
func (m *recurrentModel) Decode(b *compute.Batch, n int) error {
	if all := len(b.Seqs); all > m.slots {
		joined := *b
		joined.Positions, joined.Seqs = make([]int32, all), make([]compute.Seq, m.slots)
		for i := range joined.Seqs {
			from, to := all*i/m.slots, all*(i+1)/m.slots
			seq := &joined.Seqs[i]
			seq.Rows = to - from
			for r := range seq.Rows {
				joined.Positions[from+r] = int32(r)
				seq.Pages = append(seq.Pages, b.Seqs[from+r].Pages...)
			}
		}
		b = &joined
	}
	for i := range b.Seqs {
		b.Seqs[i].State = compute.SeqState{From: -1, Slot: i, Prompt: b.Seqs[i].Rows}
	}
	if len(b.Seqs) == len(b.Tokens) {
		for i := range b.Seqs {
			b.Seqs[i].State = compute.SeqState{From: i, Slot: i} // generated tokens
		}
	}
	return m.Model.Decode(b, n)
}
