package compute

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Values is a buffer in memory that the program can read directly.
type Values struct {
	Floats []float32   // values of all rows
	rows   [][]float32 // the whole rows of the buffer, made once for Rows
}

// NewValues makes a buffer of rows with cols values each. The slice floats has the values of all
// rows. The buffer uses this slice without copying it.
func NewValues(floats []float32, cols int) *Values {
	v := &Values{Floats: floats}
	v.rows = v.slices(Tensor{Rows: len(floats) / cols, Cols: cols, Stride: cols})
	return v
}

// Row returns the values of row r of t, which must be a view of the buffer. It does not copy them.
func (v *Values) Row(t Tensor, r int) []float32 {
	at := t.Offset + r*t.Stride
	return v.Floats[at : at+t.Cols : at+t.Cols]
}

// Rows returns the values of all rows of t, which must be a view of the buffer. It does not copy
// them. It allocates nothing if t has all columns of the buffer.
func (v *Values) Rows(t Tensor) [][]float32 {
	if first := t.Offset / t.Stride; t.Offset == first*t.Stride && t.Cols == t.Stride && first+t.Rows <= len(v.rows) && t.Cols == len(v.rows[0]) {
		return v.rows[first : first+t.Rows]
	}
	return v.slices(t)
}

func (v *Values) slices(t Tensor) [][]float32 {
	rows := make([][]float32, t.Rows)
	for r := range rows {
		rows[r] = v.Row(t, r)
	}
	return rows
}

// WeightShape describes a tensor as backends use it: a number of matrices, each with Out rows of In
// values. A tensor of one dimension is a vector of In values.
type WeightShape struct {
	In, Out, Matrices int
	RowBytes          int // bytes of a row in the file
	Vector            bool
}

// ShapeOf returns the shape of a tensor of one to three dimensions. It returns an error for a
// tensor with more dimensions or with rows that are not whole blocks of the tensor's type.
func ShapeOf(t gguf.Tensor) (WeightShape, error) {
	if len(t.Shape) < 1 || len(t.Shape) > 3 {
		return WeightShape{}, fmt.Errorf("%d dimensions are not supported (supported: 1 to 3)", len(t.Shape))
	}
	s := WeightShape{In: t.Shape[0], Out: 1, Matrices: 1, Vector: len(t.Shape) == 1}
	if len(t.Shape) > 1 {
		s.Out = t.Shape[1]
	}
	if len(t.Shape) > 2 {
		s.Matrices = t.Shape[2]
	}
	var err error
	s.RowBytes, err = t.Type.RowBytes(s.In)
	return s, err
}

// Table returns the cosines and sines of positions 0 to positions-1, multiplied by Scale:
// [positions][dims], with the cosine and sine of pair i at 2i and 2i+1.
func (f RopeFreqs) Table(positions int) ([]float32, error) {
	if positions < 1 || len(f.Freqs) == 0 {
		return nil, fmt.Errorf("make a RoPE table of %d frequencies and %d positions: both must be at least 1", len(f.Freqs), positions)
	}
	table := make([]float32, 0, 2*len(f.Freqs)*positions)
	for p := range positions {
		for _, freq := range f.Freqs {
			// The angle is rounded to float32, as in the reference implementations.
			sin, cos := math.Sincos(float64(float32(p+f.First) * freq))
			table = append(table, float32(cos)*f.Scale, float32(sin)*f.Scale)
		}
	}
	return table, nil
}

// Report passes the rows of a checkpoint to the batch's Trace. The Trace must not be nil.
func (b *Batch) Report(layer int, stage string, rows [][]float32) {
	for r, row := range rows {
		c := Checkpoint{Layer: layer, Stage: stage, Row: r}
		for _, v := range row {
			c.Sum += float64(v)
			c.Norm += float64(v) * float64(v)
		}
		c.Norm = math.Sqrt(c.Norm)
		b.Trace(c)
	}
}
