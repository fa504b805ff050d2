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
	guides  *guides        // the masks in rows.Draws
	states  *states        // the recurrent states; nil if the model has none
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
	b.guides.reset()
	for _, s := range running {
		if s.rows > 0 {
			b.add(s, limit)
		}
	}
}

func (b *batch) add(s *sequence, limit int) {
	r := &b.rows
	s.firstRow = len(r.Tokens)
	r.Seqs = append(r.Seqs, compute.Seq{Rows: s.rows, Pages: s.table.Pages(), Further: s.table.Further(), State: b.states.rows(s)})
	b.seqs = append(b.seqs, s)
	if s.guide != nil {
		s.guide.begin(len(s.draft.Drafts))
	}
	for position := s.computed; position < s.computed+s.rows; position++ {
		if s.outputs(position) {
			o := output{seq: s, position: position, drafts: max(0, position+1-s.length()), row: len(b.outputs), top: s.tops(position)}
			r.Top = max(r.Top, min(o.top, limit))
			r.Draws = append(r.Draws, b.draw(&o))
			r.Outputs = append(r.Outputs, int32(len(r.Tokens)))
			b.outputs = append(b.outputs, o)
		}
		r.Tokens = append(r.Tokens, s.token(position))
		r.Positions = append(r.Positions, int32(position))
	}
	b.addMasks(s)
}

func (b *batch) draw(o *output) compute.Draw {
	draw := o.seq.next(*o, &b.edits, b.guides)
	o.edited = len(draw.Edits) > 0 || len(draw.Mask) > 0
	return draw
}

func (b *batch) addMasks(s *sequence) {
	if s.guide != nil && s.guide.masks() {
		b.guides.seqs = append(b.guides.seqs, s)
	}
}

// redraw makes the draws of the next step of a run, after advance. forced is the number of rows
// that sequences would save in further steps if the run ended with this step: those of tokens that
// the constraint has forced.
func (b *batch) redraw() (forced int) {
	draws := b.rows.Draws
	for i := range draws {
		draws[i] = compute.Draw{Given: true}
	}
	b.edits = b.edits[:0]
	b.guides.reset()
	for i := range b.outputs {
		o := &b.outputs[i]
		if o.seq.guide != nil {
			o.seq.guide.begin(0)
		}
		draws[o.row] = b.draw(o)
		b.addMasks(o.seq)
		forced += max(0, o.seq.left()-2)
	}
	return forced
}

func (b *batch) size() cost.Size {
	z := cost.Size{Rows: len(b.rows.Tokens), Outputs: len(b.rows.Outputs)}
	for _, position := range b.rows.Positions {
		z.Reads += int(position) + 1
	}
	return z
}

// continuing returns the number of outputs whose sequences do not end with the step's token because
// of their length.
func (b *batch) continuing() (n int) {
	for _, o := range b.outputs {
		if o.seq.length()+1 < o.seq.request.limit {
			n++
		}
	}
	return n
}

// advance turns the batch of one step of a run into that of the next one, without the sequences
// that have ended.
func (b *batch) advance() {
	n := 0
	for _, o := range b.outputs {
		s := o.seq
		if s.ended() || s.stale {
			continue
		}
		o.position++
		s.start, s.rows, s.firstRow = s.computed, 1, o.row
		b.seqs[n], b.outputs[n] = s, o
		n++
	}
	clear(b.seqs[n:])
	clear(b.outputs[n:])
	b.seqs, b.outputs = b.seqs[:n], b.outputs[:n]
}
