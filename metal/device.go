// Package metal is the compute backend on a GPU: kernels in Metal Shading Language, the backend that binds and orders them,
// and the device interface that the drivers implement; metal/drivers lists them. The driver metal/emulator compiles the same
// kernels for the CPU, so that every kernel and every binding is tested on any machine.
//
// A row of every operation has the same bits in any batch. For this, all kernels of a family sum in one order: each of the 32
// lanes of a simdgroup adds up a fixed share of the products, called a strand, and the strands are added in a tree. Which
// products belong to a strand depends on the weight's type and the row's length alone; see kernels/quants.h.
package metal

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMemory is wrapped by the errors of buffers that do not fit the device's memory.
	ErrMemory = errors.New("the device has not enough memory")
	// ErrUnsupported is what errors.Is finds in the errors of drivers that cannot be used on this machine: because of the system, or
	// because no GPU is found that can run the kernels. See Unsupported.
	ErrUnsupported = errors.New("no GPU that Ingot's kernels run on")
)

// Unsupported returns an error that is ErrUnsupported to errors.Is. Its text is the reason alone.
func Unsupported(format string, args ...any) error {
	return unsupportedError{fmt.Errorf(format, args...)}
}

type unsupportedError struct{ error }

func (u unsupportedError) Unwrap() error { return u.error }

func (unsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Device is a GPU as a driver presents it. Work is a list of dispatches, submitted together, so that encoding allocates nothing
// and can be counted. Methods other than Compile must not be called concurrently.
type Device interface {
	// Info describes the device and its limits.
	Info() Info
	// Compile compiles the kernels of a source. The error holds the compiler's messages. It may be called concurrently.
	Compile(src Source, mode Mode) (Library, error)
	// Pipeline prepares a kernel of a library with the given function constants.
	Pipeline(lib Library, function string, constants []Constant) (Pipeline, error)
	// PipelineInfo returns the limits of a pipeline.
	PipelineInfo(p Pipeline) PipelineInfo
	// NewBuffer makes a zeroed buffer.
	NewBuffer(bytes int, storage Storage) (Buffer, error)
	// FreeBuffer frees a buffer. Work that uses it must be done.
	FreeBuffer(b Buffer)
	// Contents returns the memory of a shared buffer. It must not be accessed while submitted work uses the buffer.
	Contents(b Buffer) []byte
	// Upload copies src to a buffer of either storage. When it returns, src may be reused.
	Upload(b Buffer, offset int, src []byte) error
	// Read copies from a buffer; with unified memory, from a shared one. Work that writes to it must be done.
	Read(dst []byte, b Buffer, offset int) error
	// Submit encodes dispatches into a command buffer and commits it; see Dispatch.SplitBefore. Submissions run in order.
	Submit(work []Dispatch) (Ticket, error)
	// Wait blocks until a submission and all before it are done. It returns the first error of the submissions that were not waited
	// for before. The others have run.
	Wait(t Ticket) (Timing, error)
	// Memory returns the bytes that are allocated on the device.
	Memory() int
	// Counters counts the work since the device was opened, for tests and `ingot bench`.
	Counters() Counters
	// StartCapture records the GPU's work to a file for a debugger until StopCapture.
	StartCapture(path string) error
	StopCapture() error
	// Close frees all resources. Handles are invalid afterwards.
	Close() error
}

// The handles of a device. The zero value of each refers to nothing.
type (
	// Library is compiled kernels.
	Library uint32
	// Pipeline is a kernel that is ready to run.
	Pipeline uint32
	// Buffer is memory that kernels read and write.
	Buffer uint32
	// Ticket identifies a submission. Later submissions have higher tickets.
	Ticket uint64
)

// Info describes a device.
type Info struct {
	Driver            string // its name in metal/drivers
	Name              string // such as "Apple M4 Max"
	Family            string // of GPUs with the same geometry, such as "Apple9"; empty if the driver knows none
	Memory            int    // bytes that all buffers together should stay below; recommendedMaxWorkingSetSize of Metal
	MaxBuffer         int    // bytes of one buffer
	MaxThreadgroup    int    // threads of a threadgroup
	ThreadgroupMemory int    // bytes
	// UnifiedMemory reports whether shared buffers are as fast as private ones. If not, the backend keeps what kernels read and
	// write in private buffers, and copies.
	UnifiedMemory bool
	// Bandwidth is the bytes per second that the device's own memory is made for; 0 if it has none, or none that is known.
	Bandwidth       float64
	LanguageVersion string // of the compiled kernels, as the compiler reports it
	MathMode        string // of the compiled kernels: "safe", or "relaxed", which is fast and handles infinities
	ResidencySets   bool
	// SplitAttention reports whether attention of few rows is faster with a threadgroup for each split of the keys than with a
	// simdgroup for each few heads: see attention_split.metal.
	SplitAttention bool
	// NativeKernels reports whether the device runs the kernels in kernels/cuda, which the backend then prefers.
	NativeKernels bool
}

// Source is a text of kernels with its headers included.
type Source struct {
	Name string // for error messages
	Text string
	// Native reports whether the text is in the language of the device, and not in Metal's.
	Native bool
}

// Mode is how kernels are compiled.
type Mode int

// The modes.
const (
	Release Mode = iota // optimised, precise arithmetic
	Debug               // with bounds checks (INGOT_DEBUG defined), not optimised
	// FastMath is optimised, with fast arithmetic that handles infinities, which attention needs. On systems without such arithmetic
	// it is precise; Info.MathMode has the actual mode. A row's results may depend on the rest of the batch.
	FastMath
)

// Storage is where a buffer's memory is.
type Storage int

// The storages.
const (
	Private Storage = iota // GPU memory, written by Upload and kernels
	Shared                 // accessible to the CPU through Contents
)

// Constant is a function constant: a 32-bit value that the compiler knows. Index is that of [[function_constant(Index)]].
type Constant struct {
	Index int
	Value uint32
}

// PipelineInfo is the limits of a pipeline.
type PipelineInfo struct {
	MaxThreads        int // of a threadgroup
	SimdWidth         int
	ThreadgroupMemory int // bytes that the kernel declares
}

// Dispatch is the run of a kernel over a grid of threadgroups. Submit does not retain the slices.
type Dispatch struct {
	Name     string // of the operation, for counters and captures
	Pipeline Pipeline
	// Buffers are bound at indices from 0 on. The argument struct of the kernel follows at the next index.
	Buffers []Binding
	Args    []byte // at most 4 KB
	// ThreadgroupMemory is the bytes of [[threadgroup(0)]]; 0 if the kernel has no such parameter.
	ThreadgroupMemory int
	Groups            [3]int // threadgroups
	Threads           [3]int // of a threadgroup; the product is a multiple of the SIMD width
	// Barrier makes the dispatch wait for the writes of all dispatches before it in the list. A dispatch without one may run
	// concurrently with those before it.
	Barrier bool
	// SplitBefore allows the driver to start a new command buffer at this dispatch: macOS ends command buffers that occupy the GPU for
	// too long.
	SplitBefore bool
}

// Binding is a buffer from a byte offset to its end.
type Binding struct {
	Buffer Buffer
	Offset int
}

// Timing is when the GPU began and finished a submission.
type Timing struct {
	Start, End time.Duration // on the device's own clock
}

// Counters are totals since a device was opened.
type Counters struct {
	CommandBuffers int
	Waits          int
	Dispatches     int
	Pipelines      int // made
	Buffers        int // made
	UploadedBytes  int
}
