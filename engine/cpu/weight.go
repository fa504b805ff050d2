package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/gguf"
)

// weight is a tensor of a model: a vector of float32, or packed matrices.
type weight struct {
	tensor   gguf.Tensor // the tensor in the file; Embed reads its rows
	in, out  int         // columns and rows of a matrix
	matrices int
	vector   []float32 // the values of a tensor of one dimension

	packed     []byte // matrices of groups of 16 rows; see package kernels
	groups     int    // number of groups in a matrix
	groupBytes int
	product    func(*kernels.ProductArgs)
	// tileProduct is the product for activations in tiles, or nil.
	tileProduct func(*kernels.ProductArgs)
	form        kernels.Form // of the activations that products take
}

func (w *weight) Type() gguf.Type { return w.tensor.Type }

func (w *weight) Shape() []int { return w.tensor.Shape }

// Weight implements compute.Backend. It packs matrices for the products. Products read only the
// packed copy, so the system can drop the file's data from memory.
func (b *Backend) Weight(t gguf.Tensor) (compute.Weight, error) {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	w := &weight{tensor: t, in: shape.In, out: shape.Out, matrices: shape.Matrices}
	if shape.Vector {
		w.vector = t.Values()
		return w, nil
	}
	w.groups = (w.out + kernels.GroupRows - 1) / kernels.GroupRows
	w.groupBytes = kernels.GroupBytes(t.Type, w.in)
	w.tileProduct = b.products.TileProduct(t.Type)
	w.product, w.form = b.products.Product(t.Type, w.in), kernels.FormOf(t.Type, w.in)
	if w.packed, err = b.memory.bytes(w.matrices * w.groups * w.groupBytes); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	b.weightBytes += len(w.packed)
	p := packing{w, shape.RowBytes}
	b.pool.do(&p, (w.matrices*w.groups+packedParts-1)/packedParts)
	if !t.Type.InFiles() {
		w.tensor.Data = nil // the model's copy, which is not in a mapped file
	}
	return w, nil
}

// Table implements compute.Backend. It copies nothing: Embed reads the rows in the file.
func (b *Backend) Table(t gguf.Tensor) (compute.Weight, error) {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return &weight{tensor: t, in: shape.In, out: shape.Out, matrices: shape.Matrices}, nil
}

const packedParts = 16

type packing struct {
	w        *weight
	rowBytes int
}

func (p *packing) part(_, i int) {
	w := p.w
	for g := i * packedParts; g < min((i+1)*packedParts, w.matrices*w.groups); g++ {
		matrix, first := g/w.groups, g%w.groups*kernels.GroupRows
		from, to := matrix*w.out+first, matrix*w.out+min(first+kernels.GroupRows, w.out)
		kernels.PackGroup(w.packed[g*w.groupBytes:(g+1)*w.groupBytes], w.tensor.Type, w.tensor.Data[from*p.rowBytes:to*p.rowBytes], w.in)
	}
}

// units returns the length of a row in the units of ProductArgs: in values if products take floats,
// otherwise in blocks.
func (w *weight) units() int {
	if w.form == kernels.Floats {
		return w.in
	}
	return w.in / blockValues
}

func (w *weight) group(matrix, g int) unsafe.Pointer {
	return unsafe.Pointer(&w.packed[(matrix*w.groups+g)*w.groupBytes])
}

func (w *weight) row(dst []float32, o int) {
	if w.tensor.Data == nil {
		group := w.packed[o/kernels.GroupRows*w.groupBytes:][:w.groupBytes]
		kernels.UnpackRow(dst[:w.in], w.tensor.Type, group, o%kernels.GroupRows)
		return
	}
	n := len(w.tensor.Data) / (w.out * w.matrices)
	gguf.Dequantise(dst[:w.in], w.tensor.Type, w.tensor.Data[o*n:(o+1)*n])
}
