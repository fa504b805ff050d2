package compute

import "fmt"

// ChunkRows is the number of positions of a chunk. Step.DeltaNet computes the rows of a prompt in
// chunks, which begin at the positions that are multiples of ChunkRows, in every batch.
const ChunkRows = 64

// States has the recurrent states of a model in a backend's memory. A model with recurrent layers
// keeps a state of constant size for each sequence instead of keys and values of each position.
type States interface {
	Shape() StateShape
}

// StateShape has the sizes of the recurrent states of a model. A slot holds the state of one
// sequence. For each layer, a state has the last ConvRows inputs of a convolution, ConvCols values
// each, and Heads matrices of KeyDim x ValueDim values. All values are float32.
//
// A slot also has room for a log of the last Drafts rows of a step, which may be rejected later;
// see SeqState. The log of a layer has for each row the ConvCols inputs of the convolution and what
// changes the matrices: Heads times a key, a value, and two factors.
type StateShape struct {
	Layers             int // number of recurrent layers, numbered from 0
	Slots              int
	ConvRows, ConvCols int
	Heads              int
	KeyDim, ValueDim   int
	Drafts             int // maximum number of rows in the log
}

// Check returns an error if a size is too small.
func (s StateShape) Check() error {
	if s.Layers < 1 || s.Slots < 1 || s.ConvRows < 1 || s.ConvCols < 1 || s.Heads < 1 || s.KeyDim < 1 || s.ValueDim < 1 || s.Drafts < 0 {
		return fmt.Errorf("shape %+v is not possible: Drafts must be at least 0, and all other sizes at least 1", s)
	}
	return nil
}

// ConvValues returns the number of values of a layer's inputs of the convolution in a slot: the
// state's, then the log's.
func (s StateShape) ConvValues() int { return (s.ConvRows + s.Drafts) * s.ConvCols }

// MatrixValues returns the number of values of a layer's matrices in a slot.
func (s StateShape) MatrixValues() int { return s.Heads * s.KeyDim * s.ValueDim }

// LogValues returns the number of values that a layer's log has in a slot for changes of the
// matrices.
func (s StateShape) LogValues() int { return s.Drafts * s.Heads * (s.KeyDim + s.ValueDim + 2) }

// SlotBytes returns the number of bytes of a slot, in all layers.
func (s StateShape) SlotBytes() int64 {
	return 4 * int64(s.Layers) * (int64(s.ConvValues()) + int64(s.MatrixValues()) + int64(s.LogValues()))
}

// SeqState describes what a step does with the recurrent state of a sequence. Models without
// recurrent layers do not read it.
//
// The rows of a sequence are first Prompt rows of its prompt, then generated rows, the last Drafts
// of which may be rejected. Rows of the prompt are computed in chunks. Generated rows are computed
// one after another; the two ways round differently. A row's results therefore depend on which
// positions belong to the prompt, but not on the division of the rows into steps.
//
// The state that a step leaves is the state before its drafts. The step logs the drafts. The next
// step of the sequence tells in Accepted how many of them belong to the sequence, and begins with
// the position after these. So rejected drafts need no copy of the state.
//
// No sequence of a batch may write a slot that another one reads or writes. Several may read the
// same slot.
type SeqState struct {
	// From is the slot with the state that the first row continues: From is Slot to continue the
	// sequence, another slot to continue a copy of its state, and -1 to begin at position 0.
	From int
	// Slot is the slot in which the step leaves the state. The step does not change From's slot if
	// it is another one.
	Slot int
	// Accepted is the number of leading rows in From's log that belong to the sequence, and that
	// the state must include.
	Accepted int
	// Prompt is the number of leading rows that belong to the prompt. If it is not 0, the first
	// row's position is a multiple of ChunkRows, and so is the position after these rows, unless
	// the prompt ends there.
	Prompt int
	// Drafts is the number of last rows that may be rejected; at most StateShape.Drafts. Rows of
	// the prompt are never among them.
	Drafts int
}

// Delta has the settings of a layer with the gated delta rule (Yang et al., "Gated Delta Networks:
// Improving Mamba2 with Delta Rule", 2024).
type Delta struct {
	KeyHeads int     // heads of queries and keys; a divisor of StateShape.Heads
	Grouped  bool    // head j reads key head j/(Heads/KeyHeads) instead of j%KeyHeads
	Eps      float32 // is added to the squared lengths of queries and keys
	Decay    Weight  // {Heads}, negative
	Bias     Weight  // {Heads}
}

// KeyHead returns the key head that a head reads; heads is the number of heads.
func (d *Delta) KeyHead(head, heads int) int {
	if d.Grouped {
		return head / (heads / d.KeyHeads)
	}
	return head % d.KeyHeads
}

// Scan has the settings of a layer of Mamba-2 (Dao and Gu, "Transformers are SSMs", 2024).
type Scan struct {
	// Groups is the number of groups of heads, a divisor of StateShape.Heads. Head j is in group
	// j/(Heads/Groups).
	Groups int
	Decay  Weight // {Heads}, negative
	Bias   Weight // {Heads}
	Skip   Weight // {Heads}
}

// GatedNorm has the settings of a norm with a gate.
type GatedNorm struct {
	Gain Weight // {length of a norm's values}, or {columns} for a gain of each column
	Dims int    // number of values of one norm, a divisor of the columns
	Eps  float32
	// GateFirst applies the gate to the values before the norm, as Mamba-2 does, instead of after
	// it.
	GateFirst bool
}
