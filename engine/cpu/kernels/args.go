package kernels

import "unsafe"

// The arguments of the kernels have the same layout as the structs in c/args.h: every field takes 8
// bytes. A kernel does not retain pointers after it returns.

// Block is 32 activations of 16 bits with their scale.
type Block struct {
	// Q has the integers as the kernels of a level read them. In portable Go they are in order. For
	// AVX2, the second and the third of each four are exchanged. For AVX-512 and NEON, Q has 64
	// signed bytes: integer i is 256 times byte i plus byte 32+i.
	Q [32]int16
	Sums
}

// Block8 is 32 activations of 8 bits with their scale. The integers are in order.
type Block8 struct {
	Q [32]int8
	Sums
}

// WordBlock is 32 activations for weights of 16 bits: D times the integers, which are in order.
// Their magnitude is at most MaxWord, and their Euclidean norm at most 46,340, as that of a block
// of weights. So the sum of 32 products fits into an int32.
type WordBlock struct {
	Q [32]int16
	D float32
}

// Sums has the scale of a block and the sums of its integers in the forms that the kernels add. An
// activation is D times its integer, which is from -MaxQ to MaxQ, or from -MaxQ8 to MaxQ8.
type Sums struct {
	D                float32
	Sum              float32    // D times the sum of the integers
	Halves           [2]float32 // D times the sum of the first, and of the last, 16 integers
	Minus8, Minus128 int32      // -8 and -128 times the sum of the integers
	Minus32          [2]int32   // -32 times the sum of the first, and of the last, 16 integers
}

// The largest integers of blocks.
const (
	MaxQ8 = 127         // largest integer of a Block8
	MaxQ  = MaxQ8 * 256 // largest integer of a Block: its high byte is MaxQ8, and its low byte 0

	MaxWord = 1<<15 - 1 // largest integer of a WordBlock
	maxNorm = 46330     // largest norm of a WordBlock before rounding, which adds at most 2.9
)

// ProductArgs is a product of packed weights with rows of activations: 16*Groups results per row.
type ProductArgs struct {
	W       unsafe.Pointer // packed weights, from the start of a group
	X       unsafe.Pointer // activations in the Form of the weights
	Out     *float32
	In      *int64   // [Rows] offset of each row in X: in blocks, or in values for Floats
	At      *int64   // [Rows] offset of each row's results from Out, in values
	Factors *float32 // [Rows] a row's results are multiplied with its factor and added to Out; if nil, results are written to Out
	Rows    int64
	Groups  int64
	Blocks  int64 // number of blocks of 32 weights in a row or, for Floats, the number of weights in a row

	// Products of tiles take these fields instead of In.
	TileRows  int64          // number of rows in each tile of X but the last, which may have fewer
	TileBytes int64          // size of a tile
	Memory    unsafe.Pointer // working memory of TileMemory bytes, from a multiple of 64
}

// TileRows is the maximum number of rows in a tile. A tile has 32 activations of each of its rows.
const TileRows = 16

// RowsPerTile returns the number of rows in each tile but the last, which makes the tiles of so
// many rows about equally large.
func RowsPerTile(rows int) int {
	tiles := (rows + TileRows - 1) / TileRows
	return (rows + tiles - 1) / tiles
}

// TileMemory is the size of the memory that a product of tiles needs.
const TileMemory = 18 << 10

// QuantiseArgs converts X to blocks of 32 values. The value of largest magnitude in a block becomes
// the largest integer of the block or its opposite; in a WordBlock, it becomes less if the norm
// would be too large.
type QuantiseArgs struct {
	X      *float32
	Out    unsafe.Pointer // [Blocks] of Block, Block8, WordBlock or tiles
	Blocks int64
	Row    int64 // for tiles, the row of each tile that is written
}

// NormArgs writes Src/sqrt(mean(Src²)+Eps)·Gain to Dst, which may be Src.
type NormArgs struct {
	Dst, Src, Gain *float32
	N              int64
	Eps            float64
}

// DeltaArgs applies a row of the gated delta rule to a matrix S of Keys rows of Values columns: S ←
// Decay·S; S ← S + K·Beta·(V - SᵀK)ᵀ; Out = SᵀQ. Decay and Beta are float32s.
type DeltaArgs struct {
	S            *float32 // [Keys, Values]
	K, Q         *float32 // [Keys]
	V, Out       *float32 // [Values]
	Keys, Values int64
	Decay, Beta  float64
}

// GateArgs writes the activation of Gate and Up to Dst, which may be Gate or Up.
type GateArgs struct {
	Dst, Gate, Up *float32
	N             int64
	Kind          int64 // a compute.Activation
}

// ConvolveArgs adds the products of four rows with the weights of their columns to Out: first X0
// times the first weight of a column, last X3 times the fourth. Each operation is rounded.
type ConvolveArgs struct {
	Out            *float32
	W              *float32 // [N][4]
	X0, X1, X2, X3 *float32
	N              int64
}

// SoftCapArgs replaces each value of X by Limit·tanh(x/Limit). Limit is a float32.
type SoftCapArgs struct {
	X     *float32
	N     int64
	Limit float64
}

// ScoresArgs writes Scale·(query·key) of each query and position.
type ScoresArgs struct {
	Q         *float32
	At        *int64         // [Queries] offset of each query from Q, in values
	K         unsafe.Pointer // [Positions][Stride] of float32, or of float16
	Out       *float32       // [Queries][OutStride]
	Queries   int64
	Positions int64
	Stride    int64
	OutStride int64
	Dims      int64
	Scale     float64
	Next      unsafe.Pointer // memory that the next call reads; the kernel prefetches it
	NextBytes int64
}

// ValuesArgs adds each position's value times the query's weight to each query's result, in order
// of position.
type ValuesArgs struct {
	Weights       *float32       // [Queries][WeightsStride]
	V             unsafe.Pointer // [Positions][Stride] of float32, or of float16
	Out           *float32
	At            *int64 // [Queries] offset of each query's result from Out, in values
	Queries       int64
	Positions     int64
	Stride        int64
	WeightsStride int64
	Dims          int64
	Next          unsafe.Pointer // as in ScoresArgs
	NextBytes     int64
}

// SoftmaxArgs turns N scores into weights, in place.
type SoftmaxArgs struct {
	X *float32
	N int64
}

// HighestArgs finds the highest of N values. The last three fields are the results.
type HighestArgs struct {
	X     *float32
	N     int64
	ID    int64   // index of the highest value; of equal values, the lowest index; never that of a NaN
	Value float64 // the highest value
	Sum   float64 // sum of exp(x-Value) over all values; infinite if a value is NaN or +Inf
}

// PeakArgs finds the highest of N values. The last two fields are the results.
type PeakArgs struct {
	X     *float32
	N     int64
	ID    int64   // index of the highest value; of equal values, the lowest index; never that of a NaN
	Value float64 // the highest value; infinite if a value is NaN or +Inf
}

// WeighArgs computes the weights of N logits, which are finite or -Inf, as compute.Weigh and
// compute.FixedWeight do. No logit has a higher exponent than Top. Weights are whole numbers of at
// most 25 significant bits, so they are exact in float32.
type WeighArgs struct {
	X      *float32
	N      int64
	Scale  float64  // a float32
	Lowest float64  // a float32 above -Inf; lower logits have the weight 0
	Top    int64    // exponent of the highest logit of the row
	Out    *float32 // [N] the weights; nil to compute only their sum
	Sum    uint64   // the result: the sum of the weights
}

// ListArgs lists the values from Low to High.
type ListArgs struct {
	X         *float32
	N         int64
	Low, High float64  // float32s; Low is above -Inf
	IDs       *int32   // [N+16] receives the indices of these values, ascending
	Values    *float32 // [N+16] receives these values
	Count     int64    // result: the number of these values
}

// BracketArgs adds up the weights of N logits, and those of the logits above High, and lists the
// logits from Low to High. Weights are those of WeighArgs.
type BracketArgs struct {
	X         *float32
	N         int64 // at most 65,536
	Scale     float64
	Lowest    float64
	Top       int64
	Low, High float64 // as in ListArgs, and so are the next fields
	Values    *float32
	Count     int64
	Sum       uint64 // result: the sum of all weights
	Above     uint64 // result: the sum of the weights of logits above High
}

// AboveArgs adds up the weights of the values above Limit.
type AboveArgs struct {
	X       *float32
	Weights *float32 // [N] as in WeighArgs
	N       int64
	Limit   float64 // a float32
	Sum     uint64  // the result
}

// RotateArgs rotates the pairs of each head of Src by the cosines and sines of Angles, and writes
// the result to Dst, which may be Src. The first N values of each head are rotated; N is even. A
// pair is two neighbouring values, and Angles has the cosine and sine of a pair side by side. If
// Halves is 1, pair i is values i and i+N/2, and Angles has all cosines first.
type RotateArgs struct {
	Dst, Src, Angles     *float32
	N                    int64
	Heads                int64
	DstStride, SrcStride int64 // distance between heads, in values
	Halves               int64
}

// ConvertArgs converts N values between float32 and a type of the KV cache. N values must be whole
// blocks of the type.
type ConvertArgs struct {
	Dst, Src unsafe.Pointer
	N        int64
}
