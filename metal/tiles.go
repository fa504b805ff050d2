package metal

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// chooseTiles decides whether tiles use simdgroup matrices. A row must have the same bits alone and
// in a tile, but Metal specifies neither the order in which simdgroup matrices sum nor which thread
// holds which element. So chooseTiles runs operations both row by row and in tiles, and compares
// the results. With fast arithmetic, which is not batch-invariant, the results need to agree only
// up to rounding.
func (b *Backend) chooseTiles(plain bool, g Geometry) error {
	if plain || b.device.Info().OrderedMatrices {
		b.kernels.plainTiles = plain
		return nil
	}
	if err := b.kernels.use(Geometry{{Kernel: ProductTile, From: 2}, {Kernel: AttentionTile, From: 2}}); err != nil {
		return err
	}
	c := comparison{Backend: b, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the values need not be secret
	same := c.products() && c.attention()
	if c.err != nil {
		return fmt.Errorf("check the order in which simdgroup matrices add: %w", c.err)
	}
	for _, buffer := range c.made {
		b.device.FreeBuffer(buffer)
	}
	b.weights, b.kernels.plainTiles = nil, !same
	return b.kernels.use(g)
}

// comparison runs operations in tiles and row by row, to compare the results.
type comparison struct {
	*Backend
	random *rand.Rand
	made   []Buffer
	err    error
}

func (c *comparison) buffer(rows, cols int) compute.Tensor {
	t, err := c.Buffer(rows, cols)
	if err != nil {
		c.err = err
		return compute.Tensor{Buffer: &memory{Values: compute.NewValues(make([]float32, rows*cols), cols)}, Rows: rows, Cols: cols, Stride: cols}
	}
	m := t.Buffer.(*memory)
	c.made = append(c.made, m.buffer)
	for _, row := range c.Floats(t) {
		for i := range row {
			row[i] = float32(c.random.NormFloat64())
		}
	}
	if !c.unified {
		c.err = c.device.Upload(m.buffer, 0, floatBytes(m.Floats))
	}
	return t
}

// same runs an operation on all rows at once and on each row alone. It reports whether the results
// agree.
func (c *comparison) same(in, out compute.Tensor, b *compute.Batch, op func(s compute.Step, dst, x compute.Tensor)) bool {
	all, alone := c.buffer(out.Rows, out.Cols), c.buffer(out.Rows, out.Cols)
	if c.err != nil {
		return false
	}
	s := c.Begin(b)
	op(s, all, in)
	c.err = s.Run()
	for r := 0; r < in.Rows && c.err == nil; r++ {
		seq := b.Seqs[0]
		seq.Rows = 1
		s := c.Begin(&compute.Batch{Tokens: b.Tokens[r : r+1], Positions: b.Positions[r : r+1], Seqs: []compute.Seq{seq}})
		dst, x := alone.Head(1), in.Head(1)
		dst.Offset, x.Offset = r*out.Stride, r*in.Stride
		op(s, dst, x)
		c.err = s.Run()
	}
	return c.err == nil && agree(c.values(all), c.values(alone), c.kernels.mode)
}

func (c *comparison) values(t compute.Tensor) []float32 {
	c.Floats(t)
	return t.Buffer.(*memory).Floats
}

// agree reports whether two lists of values have the same bits. With fast arithmetic, values may
// differ by up to a thousandth of the largest value. Rounding causes much smaller differences, a
// misplaced element much larger ones.
func agree(a, b []float32, mode Mode) bool {
	if mode != FastMath {
		return slices.Equal(a, b)
	}
	largest := float32(0)
	for _, v := range a {
		largest = max(largest, v, -v)
	}
	for i := range a {
		if d := a[i] - b[i]; !(max(d, -d) <= largest/1000) { // NaN disagrees
			return false
		}
	}
	return true
}

// comparedRows is the number of rows in a comparison. It is larger than the number of rows of a
// small tile.
const comparedRows = 40

func (c *comparison) batch(pages int) *compute.Batch {
	b := &compute.Batch{Tokens: make([]int32, comparedRows), Seqs: []compute.Seq{{Rows: comparedRows}}}
	for i := range comparedRows {
		b.Positions = append(b.Positions, int32(pages*pageOfComparison-comparedRows+i))
	}
	for i := range pages {
		b.Seqs[0].Pages = append(b.Seqs[0].Pages, int32(i))
	}
	return b
}

const pageOfComparison = 16 // positions per KV page in a comparison

func (c *comparison) products() bool {
	const n, out = 1100, 40
	values := c.values(c.buffer(out, n))
	w, err := c.Weight(gguf.Tensor{Name: "comparison", Type: gguf.TypeF32, Shape: []int{n, out}, Data: floatBytes(values)})
	if err != nil {
		c.err = err
		return false
	}
	c.made = append(c.made, w.(*weight).buffer)
	x := c.buffer(comparedRows, n)
	return c.same(x, compute.Tensor{Rows: comparedRows, Cols: out, Stride: out}, c.batch(comparedRows/pageOfComparison+1),
		func(s compute.Step, dst, x compute.Tensor) { s.MatMul(dst, x, w) })
}

// attention compares both kernels of attention_tile.metal: those for heads of up to 128 values and
// for the larger heads of MLA.
func (c *comparison) attention() bool {
	return c.attentionOf(compute.AttentionShape{Heads: 3, KVHeads: 1, KeyDim: 72, ValueDim: 64, Scale: 0.1}) &&
		c.attentionOf(compute.AttentionShape{Heads: 3, KVHeads: 1, KeyDim: 576, ValueDim: 512, Scale: 0.1})
}

func (c *comparison) attentionOf(shape compute.AttentionShape) bool {
	const pages = 20 // enough for the positions of more than one split
	if c.err != nil {
		return false
	}
	kernels, err := c.kernels.forPages(gguf.TypeF32)
	if err != nil {
		c.err = err
		return false
	}
	slots := c.buffer(pages*pageOfComparison, shape.KeyDim).Buffer.(*memory).buffer
	kv := &cache{shape: compute.CacheShape{Layers: 1, Pages: pages, PageSize: pageOfComparison, KeyCols: shape.KeyDim}, kernels: kernels}
	kv.keys = []Buffer{slots}
	kv.values = kv.keys
	q := c.buffer(comparedRows, shape.Heads*shape.KeyDim)
	if c.err != nil {
		return false
	}
	if c.err = c.reserve(4 * shape.Heads * 2 * (shape.ValueDim + 2)); c.err != nil {
		return false
	}
	cols := shape.Heads * shape.ValueDim
	return c.same(q, compute.Tensor{Rows: comparedRows, Cols: cols, Stride: cols}, c.batch(pages),
		func(s compute.Step, dst, q compute.Tensor) { s.Attention(dst, q, shape, kv, 0) })
}
