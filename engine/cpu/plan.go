package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/engine/gguf"
)

// plan implements compute.Plan.
type plan struct {
	threads        int
	blockBytes     int64        // maximum size of a row's part of a quantised block or tile
	forms          kernels.Form // forms of activations that the weights take
	weights, steps int64
	blocks         int64 // maximum number of blocks of quantised activations
	positions      int   // maximum positions of a sequence
}

// Plan implements compute.Backend.
func (b *Backend) Plan() compute.Plan {
	return &plan{threads: len(b.scratch), blockBytes: int64(max(b.products.BlockBytes, b.products.TileBytes/kernels.TileRows))}
}

func (p *plan) Weight(t gguf.Tensor) error {
	shape, err := compute.ShapeOf(t)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if shape.Vector {
		p.weights += 4 * int64(shape.In)
		return nil
	}
	groups := (shape.Out + kernels.GroupRows - 1) / kernels.GroupRows
	p.forms |= kernels.FormOf(t.Type, shape.In)
	p.weights += int64(shape.Matrices) * int64(groups) * int64(kernels.GroupBytes(t.Type, shape.In))
	return nil
}

// Table implements compute.Plan. The rows stay in the file.
func (p *plan) Table(t gguf.Tensor) error {
	if _, err := compute.ShapeOf(t); err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return nil
}

func (p *plan) Buffer(rows, cols int, multiplied bool) {
	p.steps += 4 * int64(rows) * int64(cols)
	if multiplied {
		p.blocks = max(p.blocks, int64(rows)*int64(rowBlocks(cols)))
	}
}

func (p *plan) Rope(dims, positions int) {
	p.steps += 4 * int64(dims) * int64(positions)
	p.positions = max(p.positions, positions)
}

// Cache implements compute.Plan. If attention cannot read the cache's type directly, each thread
// converts one page at a time.
func (p *plan) Cache(s compute.CacheShape) {
	if s.Type == gguf.TypeQ80 || s.Type == gguf.TypeQ40 {
		p.steps += 2 * int64(p.threads) * 4 * int64(s.PageSize) * int64(s.KeyCols+s.ValueCols)
	}
}

// States implements compute.Plan. Each thread has the memory of a chunk.
func (p *plan) States(s compute.StateShape) {
	p.steps += 4 * int64(p.threads) * int64(chunkValues(s.KeyDim, s.ValueDim))
}

// Bytes implements compute.Plan. Each thread has memory for the scores of a block of queries and
// for the results of a gated tile. This memory exists twice: for steps that divide the weights
// among the threads, and for steps that divide the rows (shards). The quantised activations also
// exist twice, for the same reason.
func (p *plan) Bytes() (weights, steps int64) {
	threads := int64(p.threads)
	steps = p.steps
	if p.forms&kernels.Blocks != 0 {
		steps += 2 * p.blocks * p.blockBytes
	}
	if p.forms&kernels.Words != 0 {
		steps += 2 * p.blocks * int64(unsafe.Sizeof(kernels.WordBlock{}))
	}
	scores := 4 * int64(max(maxScores, minQueries*scoreStride(p.positions))+maxQueries*16)
	tile := 2*4*int64(gatedRows*gatedGroups*kernels.GroupRows) + kernels.TileMemory
	return p.weights, steps + 2*threads*(scores+tile)
}

func (p *plan) Host() bool { return true }
