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

	tops   []compute.Tensor // [storedSteps] results of compute.Step.Top, each [outputs, 2*MaxTop+1]
	rows   int              // number of outputs of the last batch
	logits compute.Tensor   // [outputs, vocab] of the last batch
	// drawn has the results of compute.Step.Draw: [storedSteps][outputs].
	drawn   compute.Tensor
	outputs int // rows of drawn per step

	first     int           // slot of the first step of the last Decode
	parity    int           // slot of the first step of the next run
	next      compute.Batch // batch of the present step of Decode
	late      compute.Batch // batch without rows of a step that only draws
	positions []int32       // memory of next.Positions
	seqs      []compute.Seq // memory of next.Seqs
	all       []int32       // memory of next.Outputs
}

func (l *loader) steps(lim Limits, record func(s compute.Step, b *compute.Batch) compute.Tensor) steps {
	m := steps{be: l.be, record: record, tops: make([]compute.Tensor, storedSteps)}
	for i := range m.tops {
		m.tops[i] = l.buffer(lim.Outputs, 2*MaxTop+1)
	}
	m.drawn, m.outputs = l.buffer(lim.Outputs*storedSteps, compute.DrawCols), lim.Outputs
	return m
}

func (m *steps) Forward(b *compute.Batch) ([][]float32, error) {
	if err := m.Decode(b, 1); err != nil {
		return nil, err
	}
	return m.Logits(), nil
}

func (m *steps) Logits() [][]float32 { return m.be.Floats(m.logits) }

// storedSteps is the number of steps of a run whose results are stored at the same time: those of a
// step are read while the next one runs. Successive steps alternate between the slots, also across
// calls of Decode. So few steps differ, and those that repeat are fast on some devices.
const storedSteps = 2

// Decode runs each step in two submissions: the forward pass, and the draws. The pass of a step
// follows the draws of the step before at once. While the device computes it, the caller reads
// these draws, and prepares the next ones.
func (m *steps) Decode(b *compute.Batch, n int) error {
	m.first = 0
	if b.Prepare == nil {
		s := m.be.Begin(b)
		m.top(s, b, 0, m.record(s, b))
		m.draw(s, b, 0)
		return decodeError(s.Run(), b, 1)
	}
	m.first = m.parity
	m.next = *b
	for i := 0; ; i++ {
		s := m.be.Begin(&m.next)
		m.top(s, &m.next, i, m.record(s, &m.next))
		err := s.Submit()
		if err == nil && i > 0 {
			err = m.be.Await(1)
		}
		if err != nil {
			return decodeError(err, b, n)
		}
		more := b.Prepare(i) && i < n-1
		m.parity = m.slot(i + 1)
		s = m.be.Begin(&m.late)
		m.draw(s, b, i)
		if !more {
			return decodeError(s.Run(), b, n)
		}
		if err := s.Submit(); err != nil {
			return decodeError(err, b, n)
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

func (m *steps) draw(s compute.Step, b *compute.Batch, i int) {
	if len(b.Draws) > 0 {
		s.Draw(m.drawnBy(i), m.logits, b.Draws)
	}
}

func (m *steps) top(s compute.Step, b *compute.Batch, i int, logits compute.Tensor) {
	m.rows, m.logits = len(b.Outputs), logits
	if b.Top > 0 && m.rows > 0 {
		s.Top(m.tops[m.slot(i)].Head(m.rows).Slice(0, 2*b.Top+1), logits, b.Top)
	}
}

// slot returns where the results of a step of the last Decode are stored.
func (m *steps) slot(step int) int { return (m.first + step) % storedSteps }

func (m *steps) drawnBy(step int) compute.Tensor {
	from := m.slot(step) * m.outputs
	return m.drawn.Span(from, from+m.rows)
}

func (m *steps) Drawn(i int) [][]float32 { return m.be.Floats(m.drawnBy(i)) }

func (m *steps) Best(i int) [][]float32 { return m.be.Floats(m.tops[m.slot(i)].Head(m.rows)) }
