// Package compute is the interface between models and the devices that run them.
//
// A model's forward pass is written once, as a sequence of coarse operations on a [Step]. The CPU
// backend executes each operation when it is called; a GPU backend records the operations and
// submits them together. Every operation takes many rows at a time. A row is a token with a
// sequence and a position. Prefill, decode and a mix of both therefore run the same code. Package
// computetest has the suite that every backend must pass.
//
// Every backend is batch-invariant: the order of its arithmetic for a row depends on that row
// alone, never on the other rows of the batch. A row's results have the same bits in any batch.
package compute

import (
	"fmt"
	"slices"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Backend holds a model's memory on one device and runs steps on that device. Its methods are not
// safe for concurrent use. Everything that it makes exists until Close.
type Backend interface {
	// Name returns the backend's name in settings and results, such as "cpu".
	Name() string
	// Device returns a description of the device for people.
	Device() string
	// Arithmetic names the order and precision of the backend's arithmetic: its kind, and its kind
	// of kernels where they give other bits. Backends with the same name give the same bits. The
	// name has no slash.
	Arithmetic() string
	// Free returns the number of bytes of memory that are free for models.
	Free() (int64, error)
	// Weight makes a weight from a tensor. The tensor's data can be memory-mapped; they must stay
	// readable until Close. Weights of quantised tensors stay quantised in the backend's memory.
	Weight(t gguf.Tensor) (Weight, error)
	// Table is like Weight, for a tensor that only Embed reads.
	Table(t gguf.Tensor) (Weight, error)
	// Buffer makes a matrix of float32 for use in steps.
	Buffer(rows, cols int) (Tensor, error)
	// Rope makes the table of rotations for positions 0 to positions-1.
	Rope(f RopeFreqs, positions int) (Rope, error)
	// Cache makes the KV pages of a model.
	Cache(shape CacheShape) (Cache, error)
	// States makes the recurrent states of a model. It returns an error for sizes that the backend
	// does not support.
	States(shape StateShape) (States, error)
	// Plan returns an empty plan, which adds up the memory that the backend would allocate for
	// models. A plan itself allocates none of it.
	Plan() Plan
	// MaxInFlight returns the maximum number of steps that may be submitted before a wait; see
	// Step.Submit. It is 1 for synchronous backends.
	MaxInFlight() int
	// Begin starts a step for the rows of b. The batch must not change until the step is submitted
	// or has run.
	Begin(b *Batch) Step
	// Await waits until at most the given number of submitted steps are in flight: the newest ones.
	// The results of the other steps can then be read while these run. After an error, no step is
	// in flight.
	Await(inFlight int) error
	// Floats returns the values of a tensor after a step has run: t.Rows slices of t.Cols values.
	// They are valid until the next step that writes to the tensor.
	Floats(t Tensor) [][]float32
	// Close frees everything that the backend made.
	Close() error
}

// Preparer is a backend that compiles its code for the types of weights and caches of a model.
type Preparer interface {
	Backend
	// Prepare starts to compile what a plan of this backend needs, and does not wait for the end.
	// Weight, Cache and States wait for what they need, and return the errors.
	Prepare(p Plan) error
}

// Plan adds up the memory that a backend would allocate. Each method has the name of the Backend
// method that would allocate the memory. The pages of the KV cache and
// the slots of recurrent states are not counted.
type Plan interface {
	// Weight adds the memory of a weight made from a tensor. It does not read the tensor's data.
	Weight(t gguf.Tensor) error
	// Table is like Weight, for a tensor that only Embed reads.
	Table(t gguf.Tensor) error
	// Buffer adds the memory of a matrix. multiplied reports whether operations multiply its rows
	// with weights.
	Buffer(rows, cols int, multiplied bool)
	// Rope adds the memory of a table of rotations of dims values, for the given number of
	// positions.
	Rope(dims, positions int)
	// Cache adds the memory that attention needs in addition to the cache's pages.
	Cache(shape CacheShape)
	// States adds the memory that operations with recurrent states need in addition to the slots,
	// which have StateShape.SlotBytes each.
	States(shape StateShape)
	// Bytes returns the bytes of the weights, as the backend packs them, and the bytes for steps:
	// buffers, tables, and the backend's memory within operations.
	Bytes() (weights, steps int64)
	// Host reports whether the backend's memory is the machine's main memory, which the rest of the
	// program also uses.
	Host() bool
}

// Weight is a constant tensor of a model in a backend's memory.
type Weight interface {
	// Type returns the type of the tensor in the file.
	Type() gguf.Type
	// Shape returns the tensor's shape, fastest dimension first: {in, out}, or {in, out, experts or
	// heads}, or {n}.
	Shape() []int
}

// Rope is a table of rotations in a backend's memory.
type Rope interface {
	// Dims returns the number of values of a head that are rotated, which is twice the number of
	// pairs.
	Dims() int
}

// Cache has the KV pages of a model in a backend's memory.
type Cache interface {
	Shape() CacheShape
}

// CacheShape has the sizes of a KV cache. One slot of a page holds one position of one layer:
// KeyCols values for all its key heads together, and ValueCols values for all its value heads
// together.
type CacheShape struct {
	// Layers is the number of layers whose keys and values a page holds. A model with more layers
	// is divided into groups of this many layers: layer l of the model is layer l%Layers of group
	// l/Layers. Each group has a separate page table; see Seq.
	Layers int
	// Parts, if not nil, has a number for each group: the number of its layers that share the
	// memory of one layer. Such a layer has 1/Parts of KeyCols and ValueCols per position, and the
	// group has Parts·Layers layers. Layer l of the model is then layer l%n of group l/n, where n
	// is the number of layers of the group with the most; see Place.
	Parts    []int
	Pages    int // number of pages
	PageSize int // number of positions per page
	KeyCols  int
	// ValueCols is 0 if the values are the leading values of the keys, as in MLA's latent cache.
	ValueCols int
	// Type is the type of stored keys and values: one of gguf.CacheTypes. The zero value is F32.
	// With a block-quantised type, the length of each head must be a multiple of the block size.
	Type gguf.Type
}

// Place returns where a layer of the model is: its group, the number of the layer whose memory it
// uses, its part of this memory, and the number of parts.
func (s *CacheShape) Place(layer int) (group, in, part, parts int) {
	n, parts := s.Layers, 1
	if s.Parts != nil {
		n *= slices.Max(s.Parts)
	}
	group, in = layer/n, layer%n
	if s.Parts != nil {
		parts = s.Parts[group]
	}
	return group, in / parts, in % parts, parts
}

// Check returns an error if a size is too small or if the type is not one of gguf.CacheTypes.
func (s CacheShape) Check() error {
	if s.Layers < 1 || s.Pages < 1 || s.PageSize < 1 || s.KeyCols < 1 || s.ValueCols < 0 {
		return fmt.Errorf("shape %+v is not possible: ValueCols must be at least 0, and all other sizes at least 1", s)
	}
	for _, parts := range s.Parts {
		if parts < 1 || s.KeyCols%parts != 0 || s.ValueCols%parts != 0 {
			return fmt.Errorf("shape %+v is not possible: a layer's keys and values cannot be divided into %d parts", s, parts)
		}
	}
	if !slices.Contains(gguf.CacheTypes(), s.Type) {
		return fmt.Errorf("type %v is not supported (supported: %s)", s.Type, gguf.Names(gguf.CacheTypes()))
	}
	return nil
}

// Tensor is a matrix of float32 in a buffer of a backend, or a view of a matrix. It has Rows rows
// of Cols values. Offset is the number of values in the buffer before the first row. The starts of
// consecutive rows are Stride values apart.
type Tensor struct {
	Buffer any // the backend's handle of the buffer
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

// Span returns a view of rows [from, to).
func (t Tensor) Span(from, to int) Tensor {
	t.Offset += from * t.Stride
	t.Rows = to - from
	return t
}

// Slice returns a view of columns [from, from+n).
func (t Tensor) Slice(from, n int) Tensor {
	t.Offset += from
	t.Cols = n
	return t
}

// Batch is the rows of one step. The rows of a sequence are adjacent, in order of position.
type Batch struct {
	Tokens    []int32 // [rows] ids to embed; if From is set, only the length is used
	Positions []int32 // [rows] position of each row in its sequence
	Seqs      []Seq   // the sequences, in the order of their rows
	Outputs   []int32 // indices of the rows that reach the output head, ascending
	Top       int     // number of highest logits that the step also finds for each output; see Step.Top
	Draws     []Draw  // how the step chooses the next token of each output; empty to choose none; see Step.Draw
	// Prepare, if not nil, makes the draws of the steps that model.Model.Decode runs. It is called
	// once for each step, counted from 0, while the device computes the step's forward pass: the
	// tokens of the step before can be read. When it returns, Draws and their masks have their
	// values for the step. It reports whether another step may follow.
	Prepare func(step int) (more bool)
	// From is the result of Step.Draw or Step.Top in an earlier step, which may still be in flight.
	// If From has a buffer, the token of each row is the first id in the same row of From.
	// Otherwise, Tokens has the ids.
	From Tensor
	// Interrupt, if not nil, is called before each layer. If it returns true, the step skips the
	// remaining layers. The step then has no usable results, and the cache holds wrong values at
	// the positions of the batch's rows. Interrupt is useful only on a backend that runs operations
	// when they are called.
	Interrupt func() bool
	// Trace, if not nil, receives a summary of each row at each checkpoint of the forward pass. It
	// is for debugging and makes steps slow.
	Trace func(Checkpoint)
}

// Interrupted calls Interrupt and reports whether the step must skip its remaining layers.
func (b *Batch) Interrupted() bool { return b.Interrupt != nil && b.Interrupt() }

// Seq describes the rows of one sequence in a batch. A row at position p attends to positions 0 to
// p of its own sequence. Earlier positions were stored by earlier steps or by earlier rows of the
// same step.
type Seq struct {
	Rows  int     // number of rows, at least 1
	Pages []int32 // page table of the first group of layers: position p is slot p%PageSize of page Pages[p/PageSize]
	// Further has the page tables of the other groups of layers; see CacheShape. Entries for pages
	// before the sliding window of the first row are not used, but must be valid page numbers.
	Further [][]int32
	// State describes what the step does with the sequence's recurrent state, if the model has
	// recurrent layers.
	State SeqState
}

// Table returns the page table of a group of layers.
func (s *Seq) Table(group int) []int32 {
	if group == 0 {
		return s.Pages
	}
	return s.Further[group-1]
}

// Checkpoint is a summary of one row at a named point of the forward pass.
type Checkpoint struct {
	Layer int    // index of the layer; -1 for the embedding, the number of layers for stages after the last layer
	Stage string // "embd", "attn", "attn_out", "routing", "layer_out", "norm" or "logits"
	Row   int    // index of the row in the batch
	Sum   float64
	Norm  float64 // Euclidean
}
