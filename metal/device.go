// Package metal is the compute backend on a GPU: kernels in Metal Shading Language, the backend that binds and orders them,
// and the device interface that its drivers implement. metal/apple drives Apple's Metal; metal/emulator compiles the same kernels
// for the CPU, so that every kernel and every binding is tested on any machine.
package metal

import (
	"errors"
	"time"
)

var (
	// ErrMemory is wrapped by the errors of buffers that the device has no room for.
	ErrMemory = errors.New("the device has not enough memory")
	// ErrUnsupported is wrapped by the errors of opening a driver where another backend has to be chosen: on another system, without
	// a GPU, or with one that cannot run the kernels.
	ErrUnsupported = errors.New("no GPU that Ingot's kernels run on")
)

// Device is a GPU, or what stands in for one. Work is described as data, a list of dispatches, and handed over a list at a
// time, so that encoding allocates nothing and can be counted. Methods are called from one goroutine at a time, but for Compile.
type Device interface {
	// Info describes the device and its limits.
	Info() Info
	// Compile compiles the kernels of a source. The error holds the compiler's own text. Several sources may be compiled at
	// once, from a goroutine each.
	Compile(src Source, mode Mode) (Library, error)
	// Pipeline makes a kernel ready to run, with its function constants set.
	Pipeline(lib Library, function string, constants []Constant) (Pipeline, error)
	// PipelineInfo tells what a pipeline can be dispatched with.
	PipelineInfo(p Pipeline) PipelineInfo
	// NewBuffer makes a zeroed buffer.
	NewBuffer(bytes int, storage Storage) (Buffer, error)
	// FreeBuffer gives a buffer back. Work that uses it has to be done.
	FreeBuffer(b Buffer)
	// Contents is the memory of a shared buffer. It is only to be touched while no submitted work uses the buffer.
	Contents(b Buffer) []byte
	// Upload copies src into any buffer through staging memory of bounded size, and returns when src may be reused.
	Upload(b Buffer, offset int, src []byte) error
	// Read copies from a buffer; where memory is unified, from a shared one. Work that writes there has to be done.
	Read(dst []byte, b Buffer, offset int) error
	// Submit encodes dispatches into a command buffer and commits it. Where dispatches allow it, long work is several, one after
	// another.
	Submit(work []Dispatch) (Ticket, error)
	// Wait blocks until a submission and all before it are done. The error is the first of those that were not waited for; it
	// does not keep others from running.
	Wait(t Ticket) (Timing, error)
	// Memory is what is allocated on the device now.
	Memory() int
	// Counters are what was done since the device was opened, for tests and `ingot bench`.
	Counters() Counters
	// StartCapture records the GPU's work to a file for a debugger, until StopCapture.
	StartCapture(path string) error
	StopCapture() error
	// Close releases everything. Buffers and pipelines are gone afterwards.
	Close() error
}

// The handles of a device. The zero value of each is none.
type (
	// Library is compiled kernels.
	Library uint32
	// Pipeline is a kernel made ready to run.
	Pipeline uint32
	// Buffer is memory that kernels read and write.
	Buffer uint32
	// Ticket is work that was submitted, to wait for.
	Ticket uint64
)

// Info describes a device.
type Info struct {
	Driver            string // the name of the backend, such as "metal"
	Name              string // such as "Apple M4 Max"
	Family            string // such as "Apple9"; empty where it has none
	Memory            int    // bytes that work should stay below: recommendedMaxWorkingSetSize
	MaxBuffer         int    // bytes of one buffer
	MaxThreadgroup    int    // threads of a threadgroup
	ThreadgroupMemory int    // bytes
	// UnifiedMemory reports whether shared buffers are as fast as private ones. Where they are not, the backend keeps what
	// kernels read and write in private ones, and copies.
	UnifiedMemory   bool
	LanguageVersion string // of the kernels as compiled, read back from the compiler
	MathMode        string // likewise: "safe", or "relaxed", which is fast and knows infinities
	ResidencySets   bool
}

// Source is kernels ready to compile: one text, its #include lines resolved.
type Source struct {
	Name string // for messages
	Text string
}

// Mode is how kernels are compiled.
type Mode int

// The modes.
const (
	Release Mode = iota // optimised, precise arithmetic
	Debug               // with bounds checks (INGOT_DEBUG defined), not optimised
	// FastMath is optimised, with fast arithmetic that still knows infinities, which the kernels of attention need; where the
	// system has no such arithmetic, it is precise, as MathMode then tells. What a row gives may depend on the rows beside it.
	FastMath
)

// Storage is where a buffer lies.
type Storage int

// The storages.
const (
	Private Storage = iota // the GPU's own; filled by Upload and by kernels
	Shared                 // seen by the CPU through Contents
)

// Constant is a function constant: a 32-bit value that the compiler sees. Index is its [[function_constant(Index)]].
type Constant struct {
	Index int
	Value uint32
}

// PipelineInfo is the limits of a pipeline.
type PipelineInfo struct {
	MaxThreads        int // of a threadgroup
	SimdWidth         int
	ThreadgroupMemory int // bytes that it declares itself
}

// Dispatch is one kernel's run over a grid of threadgroups. Its slices belong to the caller and are not kept.
type Dispatch struct {
	Name     string // of the operation, for counters and captures
	Pipeline Pipeline
	// Buffers are bound at indices 0 and up; a kernel's argument struct follows at the index after the last.
	Buffers []Binding
	Args    []byte // at most 4 KB
	// ThreadgroupMemory is the bytes of [[threadgroup(0)]]; 0 where the kernel takes none.
	ThreadgroupMemory int
	Groups            [3]int // threadgroups
	Threads           [3]int // threads of a threadgroup, a multiple of the SIMD width in all
	// Barrier makes the dispatch wait for the writes of all dispatches before it in the list. A dispatch without one may run
	// concurrently with those before it.
	Barrier bool
	// SplitBefore allows the driver to start a new command buffer at this dispatch. Systems end a command buffer with an error if it
	// occupies the GPU for too long.
	SplitBefore bool
}

// Binding is a buffer from a byte offset on.
type Binding struct {
	Buffer Buffer
	Offset int
}

// Timing is when the GPU worked on a submission.
type Timing struct {
	Start, End time.Duration // on the device's own clock
}

// Counters count a device's work.
type Counters struct {
	CommandBuffers int
	Waits          int
	Dispatches     int
	Pipelines      int // made
	Buffers        int // made
	UploadedBytes  int
}
