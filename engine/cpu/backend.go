// Package cpu is the compute backend on the processor: the reference that every other backend is compared with, and what
// runs where there is no GPU.
package cpu

import (
	"fmt"
	"math"
	"runtime"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Backend is compute.Backend on the processor. Operations of a step run as they are called, each spread over the threads.
type Backend struct {
	pool    *pool
	scratch []scratch // [threads]
	step    step
}

// scratch is one thread's memory within an operation, grown once to what a model needs.
type scratch struct {
	row    []float32 // a dequantised row of a weight
	second []float32 // another, for operations over two weights
	scores []float32 // attention scores of one head
}

// New returns a backend of the given number of threads; 0 takes one a processor.
func New(threads int) (*Backend, error) {
	if threads < 0 {
		return nil, fmt.Errorf("start the CPU backend: threads is %d; give 0 for one a processor, or more", threads)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	b := &Backend{pool: newPool(threads), scratch: make([]scratch, threads)}
	b.step.backend = b
	return b, nil
}

// Name implements compute.Backend.
func (b *Backend) Name() string { return "cpu" }

// Device implements compute.Backend.
func (b *Backend) Device() string {
	return fmt.Sprintf("%s/%s, %d threads", runtime.GOOS, runtime.GOARCH, len(b.scratch))
}

// Close implements compute.Backend.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}

// Buffer implements compute.Backend.
func (b *Backend) Buffer(rows, cols int) (compute.Tensor, error) {
	if rows < 1 || cols < 1 {
		return compute.Tensor{}, fmt.Errorf("make a buffer of %d by %d values: both must be at least 1", rows, cols)
	}
	return compute.Tensor{Buffer: make([]float32, rows*cols), Rows: rows, Cols: cols, Stride: cols}, nil
}

// Floats implements compute.Backend.
func (b *Backend) Floats(t compute.Tensor) [][]float32 {
	rows := make([][]float32, t.Rows)
	for r := range rows {
		rows[r] = row(t, r)
	}
	return rows
}

// row returns the values of row r of t, in place.
func row(t compute.Tensor, r int) []float32 {
	at := t.Offset + r*t.Stride
	return t.Buffer.([]float32)[at : at+t.Cols : at+t.Cols]
}

// weight is a tensor as the file has it, seen as matrices of rows of in values; vectors are dequantised at once.
type weight struct {
	tensor   gguf.Tensor
	in, out  int
	rowBytes int
	vector   []float32 // the values of a tensor of one dimension
}

// Type implements compute.Weight.
func (w *weight) Type() gguf.Type { return w.tensor.Type }

// Shape implements compute.Weight.
func (w *weight) Shape() []int { return w.tensor.Shape }

// Weight implements compute.Backend.
func (b *Backend) Weight(t gguf.Tensor) (compute.Weight, error) {
	if len(t.Shape) < 1 || len(t.Shape) > 3 {
		return nil, fmt.Errorf("load tensor %s: it has %d dimensions; 1 to 3 are understood", t.Name, len(t.Shape))
	}
	rowBytes, err := t.Type.RowBytes(t.Shape[0])
	if err != nil {
		return nil, fmt.Errorf("load tensor %s: %w", t.Name, err)
	}
	w := &weight{tensor: t, in: t.Shape[0], out: 1, rowBytes: rowBytes}
	if len(t.Shape) > 1 {
		w.out = t.Shape[1]
	} else {
		w.vector = make([]float32, w.in)
		gguf.Dequantize(w.vector, t.Type, t.Data)
	}
	for i := range b.scratch {
		s := &b.scratch[i]
		s.row, s.second = grow(s.row, w.in), grow(s.second, w.in)
	}
	return w, nil
}

// row dequantises row o of matrix m into dst, which it returns cut to length.
func (w *weight) row(dst []float32, m, o int) []float32 {
	at := (m*w.out + o) * w.rowBytes
	gguf.Dequantize(dst[:w.in], w.tensor.Type, w.tensor.Data[at:at+w.rowBytes])
	return dst[:w.in]
}

// rope is a table of cosines and sines, [positions][dims]: cos and sin of pair i at 2i and 2i+1.
type rope struct {
	dims  int
	table []float32
}

// Dims implements compute.Rope.
func (r *rope) Dims() int { return r.dims }

// at returns the table's row of a position.
func (r *rope) at(position int32) []float32 {
	return r.table[int(position)*r.dims : (int(position)+1)*r.dims]
}

// Rope implements compute.Backend.
func (b *Backend) Rope(f compute.RopeFreqs, positions int) (compute.Rope, error) {
	if positions < 1 || len(f.Freqs) == 0 {
		return nil, fmt.Errorf("make a RoPE table of %d frequencies and %d positions: both must be at least 1", len(f.Freqs), positions)
	}
	r := &rope{dims: 2 * len(f.Freqs), table: make([]float32, 2*len(f.Freqs)*positions)}
	for p := range positions {
		at := r.at(int32(p))
		for i, freq := range f.Freqs {
			// The angle is rounded to float32, as in the reference implementations.
			sin, cos := math.Sincos(float64(float32(p) * freq))
			at[2*i], at[2*i+1] = float32(cos)*f.Scale, float32(sin)*f.Scale
		}
	}
	return r, nil
}

// cache is the KV pages: for each layer, [pages*pageSize][cols].
type cache struct {
	shape        compute.CacheShape
	keys, values [][]float32
}

// Shape implements compute.Cache.
func (c *cache) Shape() compute.CacheShape { return c.shape }

// Cache implements compute.Backend.
func (b *Backend) Cache(shape compute.CacheShape) (compute.Cache, error) {
	if shape.Layers < 1 || shape.Pages < 1 || shape.PageSize < 1 || shape.KeyCols < 1 || shape.ValueCols < 0 {
		return nil, fmt.Errorf("make a KV cache of shape %+v: a size is below 1", shape)
	}
	c := &cache{shape: shape}
	slots := shape.Pages * shape.PageSize
	for range shape.Layers {
		c.keys = append(c.keys, make([]float32, slots*shape.KeyCols))
		c.values = append(c.values, make([]float32, slots*shape.ValueCols))
	}
	return c, nil
}

// slot is the index of a position's slot in each layer of the cache.
func (c *cache) slot(pages []int32, position int) int {
	size := c.shape.PageSize
	return int(pages[position/size])*size + position%size
}

func (c *cache) key(layer, slot int) []float32 {
	n := c.shape.KeyCols
	return c.keys[layer][slot*n : (slot+1)*n]
}

// value returns a slot's values, which are the leading ones of its key where the cache keeps no others.
func (c *cache) value(layer, slot int) []float32 {
	n := c.shape.ValueCols
	if n == 0 {
		return c.key(layer, slot)
	}
	return c.values[layer][slot*n : (slot+1)*n]
}

// grow returns s, or a longer slice where s has fewer than n values.
func grow(s []float32, n int) []float32 {
	if len(s) >= n {
		return s
	}
	return make([]float32, n)
}
