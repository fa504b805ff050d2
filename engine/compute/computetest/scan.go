package computetest

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// checkScan uses heads that share groups, and dimensions that differ.
func checkScan(r *rig) {
	for _, c := range []struct{ heads, groups, keyDim, valueDim int }{
		{2, 1, 128, 64}, {6, 2, 128, 64}, {4, 4, 16, 32}, {3, 1, 64, 8},
	} {
		m := &stateSpace{
			shape: compute.StateShape{Layers: 2, ConvRows: 1, ConvCols: 1, Heads: c.heads, KeyDim: c.keyDim, ValueDim: c.valueDim, Drafts: 3},
			bias:  r.matrix(gguf.TypeF32, c.heads), skip: r.matrix(gguf.TypeF32, c.heads),
		}
		for range c.heads {
			m.decay = append(m.decay, -float32(math.Exp(3*(r.rand.Float64()-0.7)))) // some heads forget within a few rows, others hardly
		}
		decay := r.weight(gguf.Tensor{Name: "decay", Type: gguf.TypeF32, Shape: []int{c.heads}, Data: encode(gguf.TypeF32, m.decay)})
		m.settings = compute.Scan{Groups: c.groups, Decay: decay, Bias: m.bias.weight, Skip: m.skip.weight}
		xbc := c.heads*c.valueDim + 2*c.groups*c.keyDim
		r.playStates(fmt.Sprintf("the scan of %+v", c), xbc+c.heads, &stateOperation{
			shape: m.shape, cols: c.heads * c.valueDim,
			record: func(s compute.Step, dst, x compute.Tensor, states compute.States, layer int) {
				s.Scan(dst, x.Slice(0, xbc), x.Slice(xbc, c.heads), m.settings, states, layer)
			},
			expect: m.expect,
		})
	}
}

type stateSpace struct {
	shape      compute.StateShape
	settings   compute.Scan
	decay      []float32
	bias, skip *matrix
}

// expect computes the rows one after another in float64, also those of the prompt.
func (m *stateSpace) expect(lines [][]float32) [][]approx {
	s, want := m.shape, make([][]approx, len(lines))
	matrices, sizes := make([][]float64, s.Heads), make([][]float64, s.Heads)
	for head := range s.Heads {
		matrices[head], sizes[head] = make([]float64, s.KeyDim*s.ValueDim), make([]float64, s.ValueDim)
	}
	for t, line := range lines {
		want[t] = make([]approx, s.Heads*s.ValueDim)
		for head := range s.Heads {
			m.row(matrices[head], sizes[head], line, head, want[t][head*s.ValueDim:(head+1)*s.ValueDim])
		}
	}
	return want
}

// row applies a row to a head's matrix, and writes its result to out. sizes has the greatest length
// that each column of the matrix could have.
func (m *stateSpace) row(matrix, sizes []float64, line []float32, head int, out []approx) {
	s := m.shape
	at, group := s.Heads*s.ValueDim, head*m.settings.Groups/s.Heads
	x := line[head*s.ValueDim:]
	b, c := line[at+group*s.KeyDim:][:s.KeyDim], line[at+(m.settings.Groups+group)*s.KeyDim:][:s.KeyDim]
	delta := math.Log1p(math.Exp(float64(line[at+2*m.settings.Groups*s.KeyDim+head] + m.bias.values[head])))
	decay := math.Exp(float64(m.decay[head]) * delta)
	for j := range s.ValueDim {
		u := delta * float64(x[j])
		sizes[j] = decay*sizes[j] + length(b)*math.Abs(u)
		sum := 0.0
		for i := range b {
			matrix[i*s.ValueDim+j] = decay*matrix[i*s.ValueDim+j] + float64(b[i])*u
			sum += matrix[i*s.ValueDim+j] * float64(c[i])
		}
		skipped := approx{value: float64(m.skip.values[head])}.times(approx{value: float64(x[j])})
		out[j] = approx{sum, stateStep*sizes[j]*length(c) + tiny}.plus(skipped)
	}
}

func length(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}
