// Package compute is the seam between models and the machines that run them.
//
// A model's forward pass is written once, as a sequence of coarse operations on a [Step]. The CPU backend carries each
// operation out as it is called; a GPU backend records them and submits them once, in [Step.Run]. Every operation takes
// many rows at a time, and a row is a token with a sequence and a position, so prefill, decode and a mix of both are one
// path. Package computetest holds the suite that every backend has to pass.
//
// Every backend is batch-invariant: it computes a row in an order that depends on that row alone, never on the other rows of
// the batch, so that the same sequence gives the same bits in any batch.
package compute

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Backend makes a model's memory on one device and runs steps there. Its methods are not safe for concurrent use; the
// memory that it makes lives until Close.
type Backend interface {
	// Name returns the backend's name in settings and results, such as "cpu".
	Name() string
	// Device describes in words what the backend runs on.
	Device() string
	// Free returns the number of bytes of memory that are free for models.
	Free() (int64, error)
	// Weight takes over a tensor of a model. Its data may be memory-mapped and is read for as long as the backend lives.
	// Quantised tensors stay quantised.
	Weight(t gguf.Tensor) (Weight, error)
	// Buffer makes a matrix of float32 for use in steps.
	Buffer(rows, cols int) (Tensor, error)
	// Rope makes the table that rotates positions 0 to positions-1.
	Rope(f RopeFreqs, positions int) (Rope, error)
	// Cache makes the KV pages of a model.
	Cache(shape CacheShape) (Cache, error)
	// Plan returns a count of the memory that the backend would take for models, which takes none.
	Plan() Plan
	// MaxInFlight is the maximum number of steps in flight, submitted and not yet waited for: see Step.Submit. It is 1 for
	// synchronous backends.
	MaxInFlight() int
	// Begin starts a step over the rows of b, which must stay unchanged until the step is submitted or has run.
	Begin(b *Batch) Step
	// Floats returns the values of a tensor after a step has run: t.Rows slices of t.Cols values, valid until the next
	// step that writes them.
	Floats(t Tensor) [][]float32
	// Close frees everything that the backend made.
	Close() error
}

// Plan counts the memory that a backend takes for what it is asked to make. The methods are those of Backend; the pages of the KV
// cache are not part of it.
type Plan interface {
	// Weight counts a tensor, of which the data are not read.
	Weight(t gguf.Tensor) error
	// Buffer counts a matrix. multiplied reports whether operations multiply its rows with weights.
	Buffer(rows, cols int, multiplied bool)
	// Rope counts the table that rotates dims values of positions.
	Rope(dims, positions int)
	// Cache counts what attention over a cache needs besides its pages.
	Cache(shape CacheShape)
	// Bytes returns the memory of the weights as the backend packs them, and that of the steps: buffers, tables, and what operations
	// need within the backend.
	Bytes() (weights, steps int64)
	// Host reports whether this is the machine's memory, of which the rest of the program takes a part.
	Host() bool
}

// Weight is a constant tensor of a model in a backend's memory.
type Weight interface {
	// Type returns the type of the tensor in the file.
	Type() gguf.Type
	// Shape returns the tensor's shape, fastest dimension first: {in, out}, or {in, out, experts or heads}, or {n}.
	Shape() []int
}

// Rope is a table of rotations in a backend's memory.
type Rope interface {
	// Dims returns the number of values of a head that are rotated, two to a pair.
	Dims() int
}

// Cache is the KV pages of a model in a backend's memory.
type Cache interface {
	Shape() CacheShape
}

// CacheShape sizes a KV cache. One slot of a page holds one position of one layer: KeyCols values of all its key heads
// and ValueCols values of all its value heads.
type CacheShape struct {
	Layers   int // layers that store keys
	Pages    int // pages in all, shared by all layers: page p of a sequence is page p in every layer
	PageSize int // positions per page
	KeyCols  int
	// ValueCols is 0 where the values are the leading values of the keys, as in MLA's latent cache.
	ValueCols int
	// Type is how keys and values are stored: one of gguf.CacheTypes, of which F32 is the zero value. A type of blocks needs
	// heads that are whole blocks.
	Type gguf.Type
}

// Check reports what makes a shape impossible: a size that is too small, or a type that no cache has.
func (s CacheShape) Check() error {
	if s.Layers < 1 || s.Pages < 1 || s.PageSize < 1 || s.KeyCols < 1 || s.ValueCols < 0 {
		return fmt.Errorf("shape %+v has a size below 1", s)
	}
	if !slices.Contains(gguf.CacheTypes(), s.Type) {
		return fmt.Errorf("type %v is not supported; use %s", s.Type, gguf.Names(gguf.CacheTypes()))
	}
	return nil
}

// Tensor is a matrix of float32 in a buffer of a backend, or a view of one: Rows rows of Cols values, Stride values apart,
// the first at Offset.
type Tensor struct {
	Buffer any // the backend's own handle
	Offset int
	Rows   int
	Cols   int
	Stride int
}

// Head returns a view of the first n rows.
func (t Tensor) Head(n int) Tensor {
	t.Rows = n
	return t
}

// Span returns a view of rows from to to.
func (t Tensor) Span(from, to int) Tensor {
	t.Offset += from * t.Stride
	t.Rows = to - from
	return t
}

// Slice returns a view of n columns from column from on.
func (t Tensor) Slice(from, n int) Tensor {
	t.Offset += from
	t.Cols = n
	return t
}

// Batch is the rows of one step. The rows of a sequence are adjacent, in order of position.
type Batch struct {
	Tokens    []int32 // [rows] ids to embed; with From, only their number counts
	Positions []int32 // [rows] position of each row in its sequence
	Seqs      []Seq   // the sequences, in the order of their rows
	Outputs   []int32 // rows that reach the output head, ascending
	Top       int     // number of highest logits of each output that the step finds in addition; see Step.Top
	// From is the result of Step.Top in an earlier step, which need not have run yet: the token of each row is the first id of
	// the same row of From. It has no buffer where Tokens has the ids.
	From Tensor
	// Trace, if not nil, receives a summary of the values at each checkpoint of the forward pass. It is for debugging and makes
	// steps slow.
	Trace func(Checkpoint)
}

// Seq is one sequence's share of a batch. A row at position p attends to positions 0 to p of its own sequence; earlier
// positions were stored by earlier steps or by earlier rows of this one.
type Seq struct {
	Rows  int     // number of its rows, at least 1
	Pages []int32 // its page table: position p is slot p%PageSize of page Pages[p/PageSize]
}

// Checkpoint is a summary of one row at a named point of the forward pass.
type Checkpoint struct {
	Layer int    // layer that produced it; -1 for the embedding, the number of layers for what follows the last
	Stage string // "embd", "attn", "attn_out", "routing", "layer_out", "norm" or "logits"
	Row   int    // index in the batch
	Sum   float64
	Norm  float64 // Euclidean
}
