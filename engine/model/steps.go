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

	next      compute.Batch  // batch of the present step of Decode
	positions []int32        // memory of next.Positions
	draws     []compute.Draw // memory of next.Draws
}

func (l *loader) steps(lim Limits, record func(s compute.Step, b *compute.Batch) compute.Tensor) steps {
	m := steps{be: l.be, record: record, tops: make([]compute.Tensor, l.be.MaxInFlight())}
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
		for r := range m.positions {
			m.positions[r]++
		}
		for r := range m.draws {
			m.draws[r].Position++
		}
	}
	return decodeError(m.begin(&m.next, n-1).Run(), b, n)
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

func (m *steps) begin(b *compute.Batch, i int) compute.Step {
	s := m.be.Begin(b)
	m.choose(s, b, i, m.record(s, b))
	return s
}

func (m *steps) choose(s compute.Step, b *compute.Batch, i int, logits compute.Tensor) {
	m.rows, m.logits = len(b.Outputs), logits
	if b.Top > 0 && m.rows > 0 {
		s.Top(m.tops[i].Head(m.rows).Slice(0, 2*b.Top+1), logits, b.Top)
	}
	if len(b.Draws) > 0 {
		var earlier compute.Tensor
		if i > 0 {
			earlier = m.drawn.Head(i * m.outputs)
		}
		s.Draw(m.drawnBy(i), logits, b.Draws, earlier, i)
	}
}

func (m *steps) drawnBy(step int) compute.Tensor {
	return m.drawn.Span(step*m.outputs, step*m.outputs+m.rows)
}

func (m *steps) Drawn(i int) [][]float32 { return m.be.Floats(m.drawnBy(i)) }

func (m *steps) Best(i int) [][]float32 { return m.be.Floats(m.tops[i].Head(m.rows)) }
