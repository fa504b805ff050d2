// Package metal is the compute backend for GPUs. It consists of kernels in Metal Shading Language,
// the backend that records and submits dispatches of these kernels, and the interface Device, which
// drivers implement. metal/drivers lists the drivers. The driver metal/emulator compiles the same
// kernels for the CPU, so that every kernel and every binding can be tested on any machine.
//
// All operations are batch-invariant: a row's results have the same bits in any batch. For this,
// all kernels of an operation sum in the same order. The products of a row are divided into eight
// strands, each of which is summed by itself, and the strands are added in order. Which products
// belong to a strand depends only on the type of the weights and the length of a row of weights;
// see kernels/quants.h.
package metal

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMemory is wrapped by errors about buffers and work for which the device does not have
	// enough memory.
	ErrMemory = errors.New("the device does not have enough memory")
	// ErrUnsupported means that a driver cannot be used on this machine: the system is not
	// supported, or it has no GPU that can run the kernels. Errors made by Unsupported match it in
	// errors.Is.
	ErrUnsupported = errors.New("no GPU that can run Ingot's kernels")
)

// Unsupported returns an error that matches ErrUnsupported in errors.Is. Its text is the given
// reason.
func Unsupported(format string, args ...any) error {
	return unsupportedError{fmt.Errorf(format, args...)}
}

type unsupportedError struct{ error }

func (u unsupportedError) Unwrap() error { return u.error }

func (unsupportedError) Is(target error) bool { return target == ErrUnsupported }

// Device is the interface that GPU drivers implement. Work is submitted as a list of dispatches, so
// that a submission allocates nothing and dispatches can be counted. Methods other than Compile
// must not be called concurrently.
type Device interface {
	// Info describes the device and its limits.
	Info() Info
	// Compile compiles the kernels of a source. An error contains the compiler's messages. Compile
	// may be called concurrently, and if Info.CompilesByType is set, also while other methods run.
	Compile(src Source, mode Mode) (Library, error)
	// Pipeline prepares a kernel of a library with the given function constants.
	Pipeline(lib Library, function string, constants []Constant) (Pipeline, error)
	// PipelineInfo returns the limits of a pipeline.
	PipelineInfo(p Pipeline) PipelineInfo
	// NewBuffer makes a zeroed buffer.
	NewBuffer(bytes int, storage Storage) (Buffer, error)
	// FreeBuffer frees a buffer. Work that uses it must be done.
	FreeBuffer(b Buffer)
	// Contents returns the memory of a shared buffer. While submitted work uses the buffer, the
	// memory must not be written, and not be read where that work writes.
	Contents(b Buffer) []byte
	// Upload copies src to a buffer of either storage. When it returns, src may be reused.
	Upload(b Buffer, offset int, src []byte) error
	// Read copies from a buffer to dst. With unified memory, the buffer must be Shared. Work that
	// writes to what is read must be done, which a Wait has shown. Later submissions may still run:
	// Read need not wait for them.
	Read(dst []byte, b Buffer, offset int) error
	// Submit encodes dispatches into a command buffer and commits it; see Dispatch.SplitBefore.
	// Submissions run in order.
	Submit(work []Dispatch) (Ticket, error)
	// Wait blocks until a submission and all earlier ones are done. It returns the first error of
	// these submissions that no earlier Wait has returned. A failed submission does not prevent
	// later ones from running.
	Wait(t Ticket) (Timing, error)
	// Memory returns the number of bytes that are allocated on the device.
	Memory() int
	// Counters returns totals since the device was opened, for tests and `ingot bench`.
	Counters() Counters
	// StartCapture records the GPU's work to a file for a GPU debugger until StopCapture is called.
	StartCapture(path string) error
	StopCapture() error
	// Close frees all resources. Handles are invalid afterwards.
	Close() error
}

// The handles of a device. The zero value of each refers to nothing.
type (
	// Library is a source of kernels after compilation.
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
	Driver            string // the driver's name in metal/drivers
	Name              string // such as "Apple M4 Max"
	Family            string // family of GPUs that share a geometry, such as "Apple9"; empty if the driver has no families
	Memory            int    // maximum bytes of all buffers together, such as Metal's recommendedMaxWorkingSetSize
	MaxBuffer         int    // maximum bytes of one buffer
	MaxThreadgroup    int    // maximum threads of a threadgroup
	ThreadgroupMemory int    // maximum bytes of threadgroup memory
	// UnifiedMemory reports whether shared buffers are as fast as private ones. If not, kernels use
	// only private buffers, and the backend copies data to and from them.
	UnifiedMemory bool
	// Bandwidth is the nominal bandwidth of the device's dedicated memory in bytes per second. It
	// is 0 if the device has no dedicated memory, or if the bandwidth is not known.
	Bandwidth       float64
	LanguageVersion string // version of Metal Shading Language, as the compiler reports it
	MathMode        string // arithmetic of the kernels: "safe", or "relaxed", which is fast and handles infinities
	ResidencySets   bool   // the system has Metal's residency sets
	// CompilesByType reports whether the driver's compiler is so slow that kernels are compiled for
	// the types of weights and of KV pages that a model has, when it is loaded. Otherwise the
	// kernels for all types are compiled when the backend starts.
	CompilesByType bool
	// OrderedMatrices reports whether the driver defines the order in which simdgroup matrices
	// sum, and it is the order of the kernels for few rows. Otherwise the backend compares both.
	OrderedMatrices bool
	// NvidiaKernels reports whether the device can run the kernels in kernels/cuda, which the
	// backend then prefers. Otherwise, Portable says why a device of NVIDIA cannot.
	NvidiaKernels bool
	Portable      string
	// Warpgroups reports whether the device also has the instructions of warpgroups.h, which only
	// NVIDIA's Hopper has (compute capability 9.0).
	Warpgroups bool
}

// Source is the source text of kernels, with all headers included.
type Source struct {
	Name string // file name, for error messages
	Text string
	CUDA bool // the text is CUDA C++ instead of Metal's language
	// Constants are sets of function constants with which pipelines will be made. A driver that
	// compiles the source once for each set can do so in Compile.
	Constants [][]Constant
}

// Mode selects how kernels are compiled.
type Mode int

// The modes.
const (
	Release Mode = iota // optimised, precise arithmetic
	Debug               // precise arithmetic, with the checks that the driver offers, such as bounds checks (INGOT_DEBUG)
	// FastMath is optimised and uses fast arithmetic. This arithmetic handles infinities, which
	// attention needs; systems without such arithmetic use precise arithmetic. Info.MathMode
	// reports which one is used. With FastMath, results are not batch-invariant.
	FastMath
)

// Storage is where a buffer's memory is.
type Storage int

// The storages.
const (
	Private Storage = iota // GPU memory, written by Upload and kernels
	Shared                 // accessible to the CPU through Contents
)

// Constant is a function constant: a 32-bit value that is set when a pipeline is made. Index is the
// argument of [[function_constant(Index)]].
type Constant struct {
	Index int
	Value uint32
}

// PipelineInfo describes the limits of a pipeline.
type PipelineInfo struct {
	MaxThreads        int // maximum threads of a threadgroup
	SimdWidth         int // threads of a simdgroup
	ThreadgroupMemory int // bytes that the kernel declares
}

// Dispatch runs a kernel over a grid of threadgroups. Submit does not retain the slices.
type Dispatch struct {
	Name     string // the operation's name, for counters and captures
	Pipeline Pipeline
	// Buffers are bound at indices from 0 on. The argument struct of the kernel follows at the next
	// index.
	Buffers []Binding
	Args    []byte // at most 4 KB
	// ThreadgroupMemory is the bytes of [[threadgroup(0)]]; 0 if the kernel has no such parameter.
	ThreadgroupMemory int
	Groups            [3]int // threadgroups
	Threads           [3]int // threads of a threadgroup; the product is a multiple of the SIMD width
	// Barrier makes the dispatch wait for all earlier dispatches in the list. A dispatch without a
	// barrier may run concurrently with earlier dispatches.
	Barrier bool
	// SplitBefore allows the driver to start a new command buffer at this dispatch, since macOS
	// kills command buffers that occupy the GPU for too long.
	SplitBefore bool
}

// Binding binds the part of a buffer from a byte offset to the buffer's end.
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
	Pipelines      int // pipelines that were made
	Buffers        int // buffers that were made
	UploadedBytes  int
	ReadBytes      int // copied by Read
}
