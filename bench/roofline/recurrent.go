package roofline

import (
	"strings"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/metal"
)

// Indices of arguments of the kernels of recurrent layers.
const (
	argConvCols      = 0
	argTaps          = 3
	argStateHeads    = 7
	argStateKeyDim   = 8
	argStateValueDim = 9
)

// recurrent adds the work of a kernel of recurrent layers, and reports whether it is one. States
// are read and written; a chunk of a prompt needs the products of its keys and queries with its
// keys, of the changes with two triangles, and of three matrices with the state.
func (l *ledger) recurrent(d *Dispatch, w *metal.Dispatch) bool {
	arg := func(i int) float64 { return float64(argument(w, i)) }
	rule, part, _ := strings.Cut(d.Kernel, "_")
	sequences, rows := float64(l.shape.Sequences), float64(l.shape.all())
	if d.Kernel == "convolve" {
		d.Bytes = 2 * 4 * (arg(argTaps) - 1) * arg(argConvCols) * sequences
		d.Macs = rows * arg(argTaps) * arg(argConvCols)
		return true
	}
	products, ok := map[string]struct{ state, triangles, keys float64 }{"delta": {3, 2, 2}, "scan": {2, 1, 1}}[rule]
	if !ok {
		return false
	}
	keys, matrix := arg(argStateHeads)*arg(argStateKeyDim), arg(argStateHeads)*arg(argStateKeyDim)*arg(argStateValueDim)
	const half = compute.ChunkRows / 2 // mean number of rows of a chunk up to a row
	switch {
	case strings.HasPrefix(part, "step"):
		d.Bytes, d.Macs = 2*4*matrix*sequences, products.state*matrix*rows
	case part == "prepare":
		d.Macs = products.keys * keys * half * rows
	case part == "chunks":
		d.Bytes = 2 * 4 * matrix * sequences
		d.Macs = rows * (products.state*matrix + products.triangles*half*arg(argStateHeads)*arg(argStateValueDim))
	default:
		return false
	}
	return true
}
