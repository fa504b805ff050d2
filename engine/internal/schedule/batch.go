package schedule

import (
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/internal/cost"
)

type batch struct {
	rows    compute.Batch
	seqs    []*sequence    // the sequence of each element of rows.Seqs
	outputs []output       // the output of each element of rows.Outputs
	edits   []compute.Edit // memory of the edits in rows.Draws
}

// fill makes the batch from the rows that planner.plan gave to the running sequences. limit is the
// maximum of rows.Top.
func (b *batch) fill(running []*sequence, limit int) {
	r := &b.rows
	r.Tokens, r.Positions, r.Seqs, r.Outputs, r.Top = r.Tokens[:0], r.Positions[:0], r.Seqs[:0], r.Outputs[:0], 0
	clear(r.Draws)
	r.Draws, b.edits = r.Draws[:0], b.edits[:0]
	clear(b.seqs)
	clear(b.outputs)
	b.seqs, b.outputs = b.seqs[:0], b.outputs[:0]
	for _, s := range running {
		if s.rows > 0 {
			b.add(s, limit)
		}
	}
}

func (b *batch) add(s *sequence, limit int) {
	r := &b.rows
	s.firstRow = len(r.Tokens)
	r.Seqs = append(r.Seqs, compute.Seq{Rows: s.rows, Pages: s.table.Pages(), Further: s.table.Further()})
	b.seqs = append(b.seqs, s)
	for position := s.computed; position < s.computed+s.rows; position++ {
		if s.outputs(position) {
			o := output{seq: s, position: position, drafts: max(0, position+1-s.length()), row: len(b.outputs), top: s.tops(position)}
			r.Top = max(r.Top, min(o.top, limit))
			draw := s.next(o, &b.edits)
			o.edited = len(draw.Edits) > 0
			r.Draws = append(r.Draws, draw)
			r.Outputs = append(r.Outputs, int32(len(r.Tokens)))
			b.outputs = append(b.outputs, o)
		}
		r.Tokens = append(r.Tokens, s.token(position))
		r.Positions = append(r.Positions, int32(position))
	}
}

func (b *batch) size() cost.Size {
	z := cost.Size{Rows: len(b.rows.Tokens), Outputs: len(b.rows.Outputs)}
	for _, position := range b.rows.Positions {
		z.Reads += int(position) + 1
	}
	return z
}

// advance turns the batch of one step in flight into that of the next one. It reports whether a
// sequence continues.
func (b *batch) advance() bool {
	n := 0
	for _, o := range b.outputs {
		s := o.seq
		if s.ended() || s.stale {
			continue
		}
		o.position++
		s.start = s.computed
		b.seqs[n], b.outputs[n] = s, o
		n++
	}
	clear(b.seqs[n:])
	clear(b.outputs[n:])
	b.seqs, b.outputs = b.seqs[:n], b.outputs[:n]
	return n > 0
}
