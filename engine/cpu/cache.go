package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/gguf"
)

// cache has the KV pages: for each layer the pages, in a page the heads, and in a head a row for
// each position, one after another.
type cache struct {
	shape        compute.CacheShape
	keys, values [][]byte                   // [layers]; values is nil if the values are the first columns of the keys
	to           func(*kernels.ConvertArgs) // converts into the cache; nil for float32
	from         func(*kernels.ConvertArgs) // converts out of the cache; nil if attention reads the cache's type directly

	// The attention kernels for the rows that load returns, and the bytes of one value in these
	// rows.
	scores     func(*kernels.ScoresArgs)
	weigh      func(*kernels.ValuesArgs)
	valueBytes int
}

// at returns the group of a layer of the model, whose page table it uses, and its keys and values,
// from the layer's part of a page on.
func (c *cache) at(layer int) (group int, keys, values []byte) {
	group, in, part, parts := c.shape.Place(layer)
	keys = c.part(c.keys[in], c.shape.KeyCols, part, parts)
	if c.values != nil {
		values = c.part(c.values[in], c.shape.ValueCols, part, parts)
	}
	return group, keys, values
}

func (c *cache) part(layer []byte, cols, part, parts int) []byte {
	values := part * (cols / parts) * c.shape.PageSize
	return layer[values/c.shape.Type.BlockSize()*c.shape.Type.BlockBytes():]
}

func (c *cache) Shape() compute.CacheShape { return c.shape }

// Cache implements compute.Backend.
func (b *Backend) Cache(shape compute.CacheShape) (compute.Cache, error) {
	if err := shape.Check(); err != nil {
		return nil, fmt.Errorf("make a KV cache: %w", err)
	}
	k := b.kernels
	c := &cache{shape: shape, scores: k.Scores, weigh: k.Values, valueBytes: 4}
	switch shape.Type { // the types of gguf.CacheTypes except F32, for which c is complete
	case gguf.TypeF16:
		c.to, c.scores, c.weigh, c.valueBytes = k.ToF16, k.ScoresF16, k.ValuesF16, 2
	case gguf.TypeQ80:
		c.from, c.to = k.FromQ80, k.ToQ80
	case gguf.TypeQ40:
		c.from, c.to = k.FromQ40, k.ToQ40
	}
	slots := shape.Pages * shape.PageSize
	var err error
	if c.keys, err = b.pages(shape, slots, shape.KeyCols); err != nil {
		return nil, err
	}
	if shape.ValueCols > 0 {
		c.values, err = b.pages(shape, slots, shape.ValueCols)
	}
	return c, err
}

// pages makes the memory of all layers. Each layer has room for the given number of slots. A slot
// holds the cols values of one position.
func (b *Backend) pages(shape compute.CacheShape, slots, cols int) ([][]byte, error) {
	n, err := shape.Type.RowBytes(cols)
	if err != nil {
		return nil, fmt.Errorf("make a KV cache: %w; choose another type (--kv)", err)
	}
	layers := make([][]byte, shape.Layers)
	for i := range layers {
		if layers[i], err = b.memory.bytes(slots * n); err != nil {
			return nil, fmt.Errorf("make a KV cache: %w", err)
		}
	}
	return layers, nil
}

// rows returns the address of a head's rows in a page, from the given slot on. All layers that
// share the memory have cols values per slot together. The layer has dims values per head.
func (c *cache) rows(layer []byte, cols, dims int, page int32, head, slot int) unsafe.Pointer {
	at := (int(page)*cols+head*dims)*c.shape.PageSize + slot*dims
	size, block := c.shape.Type.BlockBytes(), c.shape.Type.BlockSize()
	return unsafe.Pointer(&layer[at/block*size])
}

// store writes the keys or the values of one position to a slot of a page. src has the heads one
// after another, each with dims values. For cols, see rows.
func (b *Backend) store(thread int, c *cache, layer []byte, cols int, src []float32, dims int, page int32, slot int) {
	for head := range len(src) / dims {
		b.encode(thread, c, c.rows(layer, cols, dims, page, head, slot), src[head*dims:(head+1)*dims])
	}
}

// load returns the rows of a head's first n positions in a page, in the type that attention reads.
// If the rows must be converted, load writes them to tile and returns its address. Otherwise, it
// returns the address in the cache.
func (b *Backend) load(thread int, c *cache, layer []byte, cols, dims int, page int32, head, n int, tile []float32) unsafe.Pointer {
	src := c.rows(layer, cols, dims, page, head, 0)
	if c.from == nil {
		return src
	}
	a := &b.scratch[thread].convert
	a.Dst, a.Src, a.N = unsafe.Pointer(&tile[0]), src, int64(n*dims)
	c.from(a)
	return a.Dst
}
