// Package cpu is the compute backend on the processor. It is the reference for every other backend,
// and it runs on machines without a GPU.
//
// Weights are packed once and stay quantised. Activations are quantised in blocks to 16 or, with
// compute.Fast, 8 bits, once for all products of an operation; for F16 and BF16 weights, to 15 bits
// and a sign in both precisions. Every product reads a weight once for all rows of the step. The
// bits of a value depend on its row alone, not on the other rows and not on the number of threads.
package cpu

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu/kernels"
)

// Backend is compute.Backend on the processor. Each operation of a step runs when it is called,
// spread over the threads.
type Backend struct {
	kernels   *kernels.Set
	products  *kernels.Products
	precision compute.Precision
	pool      *pool
	memory    memory
	scratch   []scratch // [threads]
	step      step
	shards    *shards

	weightBytes int
}

// scratch is one thread's memory within an operation. It grows to the size that a model needs.
type scratch struct {
	product  kernels.ProductArgs
	norm     kernels.NormArgs
	gateBy   kernels.GateArgs
	softCap  kernels.SoftCapArgs
	convolve kernels.ConvolveArgs
	delta    kernels.DeltaArgs
	scores   kernels.ScoresArgs
	values   kernels.ValuesArgs
	softmax  kernels.SoftmaxArgs
	highest  kernels.HighestArgs
	peak     kernels.PeakArgs
	weigh    kernels.WeighArgs
	list     kernels.ListArgs
	bracket  kernels.BracketArgs
	above    kernels.AboveArgs
	rotate   kernels.RotateArgs
	convert  kernels.ConvertArgs
	quant    kernels.QuantiseArgs

	tileMemory []byte    // memory of products of tiles
	at         []int64   // indices in tail, gate and up where the rows' results start
	tail       []float32 // results of a weight's last, incomplete group
	gate, up   []float32 // results of the two products of a gated activation
	normed     []float32 // a normed row
	attention  []float32 // scores of a block of queries
	keys       []float32 // a page's keys, converted
	pageValues []float32 // a page's values, converted
	queryAt    []int64   // indices where the queries of a block start
	resultAt   []int64   // indices where the queries' results start
	chunk      chunk     // memory of DeltaNet

	// The memory of Draw.

	raw           []edited // edited logits before their edits
	parts         []drawPart
	weights       []float32 // [compute.DrawPart] weights of a part
	sums          []uint64  // sums of weights of parts
	bests         []float32 // the highest logits of parts
	listed        listed    // the tokens that are compared for TopK, MinP and TopP
	sample        sample
	points        []point
	nearIDs       []int32   // [compute.DrawPart+written] indices of tokens in a part or a list, and their logits
	nearLogits    []float32 // [compute.DrawPart+written]
	candidates    []weighed // the candidates of TopK and TopP
	ordered       []weighed // the same candidates, while they are reordered
	highestIDs    []float32
	highestValues []float32
	buckets       [radixBuckets]uint64
}

// tiles returns the memory of products of tiles.
func (m *scratch) tiles() unsafe.Pointer {
	const line = 64
	m.tileMemory = grow(m.tileMemory, kernels.TileMemory+line)
	first := unsafe.Pointer(&m.tileMemory[0])
	return unsafe.Add(first, line-uintptr(first)%line)
}

// New returns a backend with the given number of threads and the fastest kernels that the processor
// supports. 0 means one thread per processor.
func New(threads int) (*Backend, error) { return NewWith(Options{Threads: threads}) }

// Options are the options of a backend.
type Options struct {
	Threads   int               // 0 means one per processor
	Precision compute.Precision // of activations in products of quantised weights
	Kernels   *kernels.Set      // nil means the fastest that the processor supports
}

// NewWith is New with options.
func NewWith(o Options) (*Backend, error) {
	threads, set := o.Threads, cmp.Or(o.Kernels, kernels.Sets()[0])
	if threads < 0 {
		return nil, fmt.Errorf("start the CPU backend: the number of threads is %d, but must be at least 1, or 0 for one per processor (--threads)", threads)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	b := &Backend{
		kernels: set, products: set.Products(o.Precision), precision: o.Precision,
		pool: newPool(threads), scratch: make([]scratch, threads),
	}
	b.step.begin(b)
	b.shards = newShards(b)
	return b, nil
}

// Name implements compute.Backend.
func (b *Backend) Name() string { return "cpu" }

// Device implements compute.Backend. It names a precision other than High.
func (b *Backend) Device() string {
	device := fmt.Sprintf("%s/%s %s, %d threads", runtime.GOOS, runtime.GOARCH, b.kernels.Name, len(b.scratch))
	if b.precision == compute.Fast {
		device += ", activations of 8 bits"
	}
	return device
}

// Arithmetic implements compute.Backend. AMX, AVX-512 and AVX2 give the same bits.
func (b *Backend) Arithmetic() string {
	class := "cpu"
	if name := b.kernels.Name; !slices.Contains([]string{"amx", "avx512", "avx2"}, name) {
		class += "-" + name
	}
	if b.precision == compute.Fast {
		class += "-fast"
	}
	return class
}

// MaxInFlight implements compute.Backend. Each operation runs when it is called, so no steps are in
// flight.
func (b *Backend) MaxInFlight() int { return 1 }

// Await implements compute.Backend. Submitted steps have run already.
func (b *Backend) Await(int) error { return nil }

// Bytes returns the size of packed weights and KV pages. The system provides the memory only when
// it is first used.
func (b *Backend) Bytes() int64 { return b.memory.taken }

// Close implements compute.Backend.
func (b *Backend) Close() error {
	b.pool.close()
	return b.memory.release()
}

// Buffer implements compute.Backend. A tensor's buffer is a *compute.Values.
func (b *Backend) Buffer(rows, cols int) (compute.Tensor, error) {
	if rows < 1 || cols < 1 {
		return compute.Tensor{}, fmt.Errorf("make a buffer of %d by %d values: both must be at least 1", rows, cols)
	}
	return newBuffer(rows, cols), nil
}

func newBuffer(rows, cols int) compute.Tensor {
	return compute.Tensor{Buffer: compute.NewValues(make([]float32, rows*cols), cols), Rows: rows, Cols: cols, Stride: cols}
}

// Floats implements compute.Backend.
func (b *Backend) Floats(t compute.Tensor) [][]float32 { return t.Buffer.(*compute.Values).Rows(t) }

func values(t compute.Tensor) []float32 { return t.Buffer.(*compute.Values).Floats }

func start(t compute.Tensor, r int) int { return t.Offset + r*t.Stride }

func row(t compute.Tensor, r int) []float32 { return t.Buffer.(*compute.Values).Row(t, r) }

func grow[T any](s []T, n int) []T {
	if len(s) >= n {
		return s
	}
	return make([]T, n)
}
