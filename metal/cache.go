package metal

import (
	"fmt"
	"math"

	"github.com/ingot-run/ingot/engine/compute"
)

// rope is a table [positions][dims] of cosines and sines. Pair i has its cosine at 2i and its sine
// at 2i+1.
type rope struct {
	dims   int
	halves bool // true: a pair is values i and i+n of a head with 2n values; false: values 2i and 2i+1
	buffer Buffer
}

func (r *rope) Dims() int { return r.dims }

// Rope implements compute.Backend.
func (b *Backend) Rope(f compute.RopeFreqs, positions int) (compute.Rope, error) {
	table, err := f.Table(positions)
	if err != nil {
		return nil, err
	}
	r := &rope{dims: 2 * len(f.Freqs), halves: f.Halves}
	if r.buffer, err = b.newBuffer(4*len(table), Private, "make a RoPE table"); err != nil {
		return nil, err
	}
	if err := b.device.Upload(r.buffer, 0, floatBytes(table)); err != nil {
		return nil, fmt.Errorf("make a RoPE table: %w", err)
	}
	b.positions = max(b.positions, positions)
	return r, nil
}

// cache is the KV pages in the layout of kernels/pages.h, with one buffer per layer.
type cache struct {
	shape        compute.CacheShape
	keys, values []Buffer // [layers]; values equals keys if the values of a position are the first part of its key
	kernels      *pageKernels
}

// partBytes returns the bytes of a page's rows for cols values per position.
func (c *cache) partBytes(cols int) int {
	return cols / c.shape.Type.BlockSize() * c.shape.Type.BlockBytes() * c.shape.PageSize
}

func (c *cache) Shape() compute.CacheShape { return c.shape }

// Cache implements compute.Backend.
func (b *Backend) Cache(shape compute.CacheShape) (compute.Cache, error) {
	if err := shape.Check(); err != nil {
		return nil, fmt.Errorf("make a KV cache: %w", err)
	}
	slots := shape.Pages * shape.PageSize
	if slots > math.MaxInt32/max(shape.KeyCols, shape.ValueCols) {
		return nil, fmt.Errorf("make a KV cache of %d positions of %d values: a layer holds at most %d values; lower --memory or --context",
			slots, max(shape.KeyCols, shape.ValueCols), math.MaxInt32)
	}
	c := &cache{shape: shape}
	var err error
	if c.kernels, err = b.kernels.forPages(shape.Type); err != nil {
		return nil, fmt.Errorf("make a KV cache: %w", err)
	}
	if err := b.recorder.makePages(shape.Type); err != nil {
		return nil, fmt.Errorf("make a KV cache: %w", err)
	}
	b.caches = append(b.caches, c)
	if c.keys, err = b.pages(shape, slots, shape.KeyCols); err != nil {
		return nil, err
	}
	c.values = c.keys
	if shape.ValueCols > 0 {
		if c.values, err = b.pages(shape, slots, shape.ValueCols); err != nil {
			return nil, err
		}
	}
	return c, b.reserve(b.recorder.splitBytes(shape, b.positions))
}

// splitBytes implements recorder.
func (p *portable) splitBytes(shape compute.CacheShape, positions int) int {
	return splitsFor(shape, positions, splitKeys, 256, maxSplitBytes)
}

// splitsFor returns the bytes of scratch memory for attention in splits of keys positions, if limit
// allows it. rowsAndHeads is the product of the numbers of rows and of heads for which there is
// room. positions is the maximum length of a sequence; 0 if it is not known.
func splitsFor(shape compute.CacheShape, positions, keys, rowsAndHeads, limit int) int {
	if slots := shape.Pages * shape.PageSize; positions == 0 || positions > slots {
		positions = slots
	}
	splits, cols := (positions+keys-1)/keys, max(shape.KeyCols, shape.ValueCols)
	return min(limit, rowsAndHeads*splits*(cols+2)*4)
}

// pages makes one buffer per layer. Each buffer has room for the given number of slots. A slot
// holds the cols values of one position.
func (b *Backend) pages(shape compute.CacheShape, slots, cols int) ([]Buffer, error) {
	n, err := shape.Type.RowBytes(cols)
	if err != nil {
		return nil, fmt.Errorf("make a KV cache: %w; choose another type with --kv", err)
	}
	layers := make([]Buffer, shape.Layers)
	for i := range layers {
		what := fmt.Sprintf("make a KV cache of %d positions, layer %d of %d", slots, i, shape.Layers)
		if layers[i], err = b.newBuffer(slots*n, Private, what); err != nil {
			return nil, err
		}
	}
	return layers, nil
}
