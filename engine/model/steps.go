package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/compute"
)

// MaxTop is the maximum of compute.Batch.Top.
const MaxTop = 64

// steps has the methods of Model that run steps: one at a time, or several without waiting between
// them.
type steps struct {
	be compute.Backend
	// record is the function that records the forward pass of a batch. It returns the buffer of the
	// logits: [outputs, vocab].
	record func(s compute.Step, b *compute.Batch) compute.Tensor

	tops   []compute.Tensor // [steps in flight] results of compute.Step.Top, each [outputs, 2*MaxTop+1]
	rows   int              // number of outputs of the last batch
	logits compute.Tensor   // [outputs, vocab] of the last batch
	// drawn has the results of compute.Step.Draw: [steps in flight][outputs].
	drawn   compute.Tensor
	outputs int // rows of drawn per step in flight

	slots     int            // number of steps of the last Decode whose results are stored
	first     int            // slot of the first step of the last Decode
	parity    int            // slot of the first step of the next Decode with masks
	next      compute.Batch  // batch of the present step of Decode
	late      compute.Batch  // batch without rows of a step that only draws
	positions []int32        // memory of next.Positions
	draws     []compute.Draw // memory of next.Draws
	seqs      []compute.Seq  // memory of next.Seqs
	all       []int32        // memory of next.Outputs
}

func (l *loader) steps(lim Limits, record func(s compute.Step, b *compute.Batch) compute.Tensor) steps {
	m := steps{be: l.be, record: record, tops: make([]compute.Tensor, l.be.MaxInFlight()), slots: 1}
	for i := range m.tops {
		m.tops[i] = l.buffer(lim.Outputs, 2*MaxTop+1)
	}
	m.drawn, m.outputs = l.buffer(lim.Outputs*l.be.MaxInFlight(), compute.DrawCols), lim.Outputs
	return m
}

func (m *steps) Forward(b *compute.Batch) ([][]float32, error) {
	if err := m.Decode(b, 1); err != nil {
		return nil, err
	}
	return m.Logits(), nil
}

func (m *steps) Logits() [][]float32 { return m.be.Floats(m.logits) }

func (m *steps) Decode(b *compute.Batch, n int) error {
	m.slots, m.first = len(m.tops), 0
	if b.Masks != nil {
		return decodeError(m.decodeMasked(b, n), b, n)
	}
	m.positions = append(m.positions[:0], b.Positions...)
	m.next = *b
	m.next.Positions = m.positions
	m.draws = append(m.draws[:0], b.Draws...)
	m.next.Draws = m.draws
	for i := range n - 1 {
		if err := m.begin(&m.next, i).Submit(); err != nil {
			return decodeError(err, b, n)
		}
		m.next.From = m.tops[i]
		if len(m.draws) > 0 {
			m.next.From = m.drawnBy(i)
		}
		if i == 0 {
			m.seqs = append(m.seqs[:0], b.Seqs...)
			for s := range m.seqs {
				m.seqs[s].State = nextState(m.seqs[s].State)
			}
			m.next.Seqs = m.seqs
		}
		for r := range m.positions {
			m.positions[r]++
		}
		for r := range m.draws {
			m.draws[r].Position++
		}
	}
	return decodeError(m.begin(&m.next, n-1).Run(), b, n)
}

// maskedSlots is the number of steps with masks whose results are stored at the same time: those of
// a step are read while the next one runs. Successive steps alternate between the slots, also
// across calls of Decode. So few steps differ, and those that repeat are fast on some devices.
const maskedSlots = 2

// decodeMasked is Decode for a batch with Masks. Each step consists of two submissions: the forward
// pass, and the draws. The pass of a step follows the draws of the step before at once. While the
// device computes it, the caller reads these draws, and computes the masks of the next ones.
func (m *steps) decodeMasked(b *compute.Batch, n int) error {
	m.slots = min(maskedSlots, len(m.tops))
	m.first = m.parity % m.slots
	m.next = *b
	for i := 0; ; i++ {
		s := m.be.Begin(&m.next)
		m.top(s, &m.next, i, m.record(s, &m.next))
		if err := s.Submit(); err != nil {
			return err
		}
		if i > 0 {
			if err := m.be.Await(1); err != nil {
				return err
			}
		}
		more := b.Masks(i)
		m.parity = 1 - m.slot(i)
		s = m.be.Begin(&m.late)
		if len(b.Draws) > 0 {
			s.Draw(m.drawnBy(i), m.logits, b.Draws, compute.Tensor{}, 0)
		}
		if !more || i == n-1 {
			return s.Run()
		}
		if err := s.Submit(); err != nil {
			return err
		}
		m.follow(b, i)
	}
}

// follow makes the batch of the step after step i: a row for each sequence of b, at the position
// after its last one.
func (m *steps) follow(b *compute.Batch, i int) {
	m.next.From = m.drawnBy(i)
	if i > 0 {
		for r := range m.positions {
			m.positions[r]++
		}
		return
	}
	m.positions, m.seqs, m.all = m.positions[:0], m.seqs[:0], m.all[:0]
	last := -1
	for r, seq := range b.Seqs {
		last += seq.Rows
		seq.Rows, seq.State = 1, nextState(seq.State)
		m.seqs, m.positions, m.all = append(m.seqs, seq), append(m.positions, b.Positions[last]+1), append(m.all, int32(r))
	}
	m.next.Tokens, m.next.Positions, m.next.Seqs, m.next.Outputs = b.Tokens[:len(m.seqs)], m.positions, m.seqs, m.all
}

// nextState returns what the step after one without drafts does with a recurrent state.
func nextState(s compute.SeqState) compute.SeqState {
	return compute.SeqState{From: s.Slot, Slot: s.Slot}
}

func decodeError(err error, b *compute.Batch, n int) error {
	switch {
	case err == nil:
		return nil
	case n == 1:
		return fmt.Errorf("run a step of %d tokens: %w", len(b.Tokens), err)
	}
	return fmt.Errorf("run %d steps of %d tokens each: %w", n, len(b.Tokens), err)
}

// begin records a step without masks.
func (m *steps) begin(b *compute.Batch, i int) compute.Step {
	s := m.be.Begin(b)
	m.top(s, b, i, m.record(s, b))
	if len(b.Draws) > 0 {
		var earlier compute.Tensor
		if i > 0 {
			earlier = m.drawn.Head(i * m.outputs)
		}
		s.Draw(m.drawnBy(i), m.logits, b.Draws, earlier, i)
	}
	return s
}

func (m *steps) top(s compute.Step, b *compute.Batch, i int, logits compute.Tensor) {
	m.rows, m.logits = len(b.Outputs), logits
	if b.Top > 0 && m.rows > 0 {
		s.Top(m.tops[m.slot(i)].Head(m.rows).Slice(0, 2*b.Top+1), logits, b.Top)
	}
}

// slot returns where the results of a step of the last Decode are stored.
func (m *steps) slot(step int) int { return (m.first + step) % m.slots }

func (m *steps) drawnBy(step int) compute.Tensor {
	from := m.slot(step) * m.outputs
	return m.drawn.Span(from, from+m.rows)
}

func (m *steps) Drawn(i int) [][]float32 { return m.be.Floats(m.drawnBy(i)) }

func (m *steps) Best(i int) [][]float32 { return m.be.Floats(m.tops[m.slot(i)].Head(m.rows)) }
