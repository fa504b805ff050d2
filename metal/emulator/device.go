// Package emulator implements metal.Device without a GPU, to test kernels and bindings on any
// machine. It compiles the kernels for the CPU with a C++ compiler and a prelude that implements
// Metal's language and library, and runs each thread of a threadgroup as a fibre. It finds
// mistakes: threadgroup memory is poisoned, the order of fibres can be shuffled, and mode Debug
// checks memory accesses. Wait returns an error for a barrier that not all threads reach, and for a
// simdgroup operation that not all lanes reach. The emulator is slow.
package emulator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/internal/kernelcache"
)

// Options are the settings of a device. The zero value gives the defaults.
type Options struct {
	// Cache is the folder of compiled kernels. The default is in the user's cache folder or, if
	// that folder cannot be written to, in the system's folder of temporary files.
	Cache string
	// Seed, if not 0, shuffles the order of fibres and the order of dispatches between two
	// barriers.
	Seed uint32
	// Memory is the maximum number of bytes of all buffers. The default is the machine's memory.
	Memory int
	// Discrete makes a device whose private memory the CPU cannot access, like a GPU with dedicated
	// memory.
	Discrete bool
	// Nvidia makes a device that also runs the kernels for NVIDIA's GPUs; with Hopper, those for
	// that architecture.
	Nvidia, Hopper bool
	// Workers is the number of threadgroups that run in parallel. The default is one per processor.
	Workers int
}

// Device implements metal.Device.
type Device struct {
	options   Options
	compiler  *compiler
	workers   *workers
	compiling sync.Mutex // guards mode and libraries
	mode      metal.Mode
	libraries []*loadedLibrary
	pipelines []*pipeline
	buffers   []*buffer
	memory    int
	counters  metal.Counters
	started   time.Time
	random    *rand.Rand

	bindings []bindingC
	order    []int
	ticket   metal.Ticket // ticket of the last submission
	waited   metal.Ticket // ticket of the last submission that was waited for
	timing   metal.Timing // times of the last submission
	failures []failure    // failures of submissions that were not waited for yet
}

// failure is the error of a submission.
type failure struct {
	ticket metal.Ticket
	err    error
}

// loadedLibrary is a library with this device's workers for its kernels.
type loadedLibrary struct {
	*library
	workers []uintptr
}

type pipeline struct {
	kernel
	name      string
	library   *loadedLibrary
	constants []uint32
}

type buffer struct {
	memory  []byte // a whole number of pages
	bytes   int
	storage metal.Storage
}

// maxConstants is the maximum number of function constants of a kernel.
const maxConstants = 64

var _ metal.Device = (*Device)(nil)

// Open finds a C++ compiler and returns a device. The error wraps ErrNoCompiler if there is none.
func Open(o Options) (*Device, error) {
	if o.Cache == "" {
		var err error
		if o.Cache, err = kernelcache.Folder(); err != nil {
			return nil, fmt.Errorf("find a folder for compiled kernels: %w", err)
		}
	}
	if o.Memory == 0 {
		var err error
		if o.Memory, err = physical(); err != nil {
			return nil, err
		}
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	c, err := findCompiler(o.Cache)
	if err != nil {
		return nil, err
	}
	return &Device{
		options: o, compiler: c, workers: newWorkers(o.Workers), started: time.Now(),
		random: rand.New(rand.NewPCG(uint64(o.Seed), 0)), //nolint:gosec // a shuffled order need not be secret
	}, nil
}

// Info implements metal.Device.
func (d *Device) Info() metal.Info {
	math := map[metal.Mode]string{metal.Release: "safe", metal.Debug: "safe", metal.FastMath: "relaxed"}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	shared := 32 << 10
	if d.options.Nvidia {
		shared = 227 << 10
	}
	return metal.Info{
		Driver: "emulator", NvidiaKernels: d.options.Nvidia, Warpgroups: d.options.Hopper, Name: d.compiler.name(), Memory: d.options.Memory,
		MaxBuffer: d.options.Memory, MaxThreadgroup: 1024, ThreadgroupMemory: shared, UnifiedMemory: !d.options.Discrete, LanguageVersion: "3.1", MathMode: math[d.mode],
		OrderedMatrices: true,
	}
}

// Compile implements metal.Device.
func (d *Device) Compile(src metal.Source, mode metal.Mode) (metal.Library, error) {
	path, err := d.compiler.compile(src, mode)
	if err != nil {
		return 0, err
	}
	l, err := load(path)
	if err != nil {
		return 0, err
	}
	workers, err := l.makeWorkers(d.options.Workers)
	if err != nil {
		return 0, fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	d.mode = mode
	d.libraries = append(d.libraries, &loadedLibrary{l, workers})
	return metal.Library(len(d.libraries)), nil
}

// Pipeline implements metal.Device.
func (d *Device) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	d.compiling.Lock()
	libraries := d.libraries
	d.compiling.Unlock()
	if lib == 0 || int(lib) > len(libraries) {
		return 0, fmt.Errorf("make a pipeline of kernel %s: library %d does not exist", function, lib)
	}
	l := libraries[lib-1]
	k, ok := l.kernels[function]
	if !ok {
		return 0, fmt.Errorf("make a pipeline of kernel %s: the library has no such kernel", function)
	}
	p := &pipeline{kernel: k, name: function, library: l, constants: make([]uint32, maxConstants)}
	for _, c := range constants {
		if c.Index < 0 || c.Index >= maxConstants {
			return 0, fmt.Errorf("make a pipeline of kernel %s: the index of a function constant is %d, but must be from 0 to %d", function, c.Index, maxConstants-1)
		}
		p.constants[c.Index] = c.Value
	}
	d.pipelines = append(d.pipelines, p)
	d.counters.Pipelines++
	return metal.Pipeline(len(d.pipelines)), nil
}

// PipelineInfo implements metal.Device.
func (d *Device) PipelineInfo(metal.Pipeline) metal.PipelineInfo {
	return metal.PipelineInfo{MaxThreads: 1024, SimdWidth: 32}
}

// NewBuffer implements metal.Device.
func (d *Device) NewBuffer(bytes int, storage metal.Storage) (metal.Buffer, error) {
	if bytes < 1 {
		return 0, fmt.Errorf("make a buffer of %d bytes: the size must be at least 1", bytes)
	}
	if d.memory+bytes > d.options.Memory {
		return 0, fmt.Errorf("make a buffer of %d bytes, with %d of %d bytes in use: %w", bytes, d.memory, d.options.Memory, metal.ErrMemory)
	}
	memory, err := allocate(bytes)
	if err != nil {
		return 0, fmt.Errorf("make a buffer of %d bytes: %w", bytes, errors.Join(metal.ErrMemory, err))
	}
	d.memory += bytes
	d.counters.Buffers++
	d.buffers = append(d.buffers, &buffer{memory, bytes, storage})
	return metal.Buffer(len(d.buffers)), nil
}

// buffer returns a buffer. It panics if the buffer does not exist.
func (d *Device) buffer(b metal.Buffer) *buffer {
	if b == 0 || int(b) > len(d.buffers) || d.buffers[b-1] == nil {
		panic(fmt.Sprintf("emulator: buffer %d does not exist", b))
	}
	return d.buffers[b-1]
}

// FreeBuffer implements metal.Device.
func (d *Device) FreeBuffer(b metal.Buffer) {
	m := d.buffer(b)
	d.memory -= m.bytes
	d.buffers[b-1] = nil
	if err := release(m.memory); err != nil {
		panic(fmt.Sprintf("emulator: free a buffer: %v", err))
	}
}

// Contents implements metal.Device.
func (d *Device) Contents(b metal.Buffer) []byte {
	m := d.buffer(b)
	if m.storage != metal.Shared {
		panic("emulator: the CPU cannot access a private buffer")
	}
	return m.memory[:m.bytes:m.bytes]
}

// Upload implements metal.Device.
func (d *Device) Upload(b metal.Buffer, offset int, src []byte) error {
	m := d.buffer(b)
	if offset < 0 || offset+len(src) > m.bytes {
		return fmt.Errorf("upload %d bytes to byte %d of a buffer of %d bytes: they are not inside the buffer", len(src), offset, m.bytes)
	}
	copy(m.memory[offset:], src)
	d.counters.UploadedBytes += len(src)
	return nil
}

// Read implements metal.Device.
func (d *Device) Read(dst []byte, b metal.Buffer, offset int) error {
	m := d.buffer(b)
	if offset < 0 || offset+len(dst) > m.bytes {
		return fmt.Errorf("read %d bytes from byte %d of a buffer of %d bytes: they are not inside the buffer", len(dst), offset, m.bytes)
	}
	copy(dst, m.memory[offset:])
	d.counters.ReadBytes += len(dst)
	return nil
}

// Submit implements metal.Device. All work is done when it returns; Wait returns its error.
func (d *Device) Submit(work []metal.Dispatch) (metal.Ticket, error) {
	for i := range work {
		if err := d.check(&work[i]); err != nil {
			return 0, fmt.Errorf("submit dispatch %d, %s: %w", i, work[i].Name, err)
		}
	}
	d.counters.CommandBuffers++
	d.counters.Dispatches += len(work)
	d.ticket++
	d.timing.Start = time.Since(d.started)
	for _, i := range d.arrange(work) {
		w := &work[i]
		if err := d.dispatch(w); err != nil {
			err = fmt.Errorf("dispatch %d, %s, kernel %s: %w", i, w.Name, d.pipelines[w.Pipeline-1].name, err)
			d.failures = append(d.failures, failure{d.ticket, err})
			break
		}
	}
	d.timing.End = time.Since(d.started)
	return d.ticket, nil
}

// arrange returns the order in which to run work: as given or, with a seed, shuffled between
// barriers.
func (d *Device) arrange(work []metal.Dispatch) []int {
	d.order = d.order[:0]
	for i := range work {
		d.order = append(d.order, i)
	}
	if d.options.Seed == 0 {
		return d.order
	}
	from := 0
	for to := 1; to <= len(work); to++ {
		if to < len(work) && !work[to].Barrier {
			continue
		}
		run := d.order[from:to]
		d.random.Shuffle(len(run), func(i, j int) { run[i], run[j] = run[j], run[i] })
		from = to
	}
	return d.order
}

// check returns an error for a dispatch that does not match the kernel's parameters.
func (d *Device) check(w *metal.Dispatch) error {
	if w.Pipeline == 0 || int(w.Pipeline) > len(d.pipelines) {
		return fmt.Errorf("pipeline %d does not exist", w.Pipeline)
	}
	p, threads := d.pipelines[w.Pipeline-1], w.Threads[0]*w.Threads[1]*w.Threads[2]
	switch {
	case len(w.Buffers) != p.buffers:
		return fmt.Errorf("%d buffers are bound, but kernel %s has %d buffer parameters", len(w.Buffers), p.name, p.buffers)
	case len(w.Args) != p.args:
		return fmt.Errorf("the arguments have %d bytes, but the argument struct of kernel %s has %d", len(w.Args), p.name, p.args)
	case w.ThreadgroupMemory > 0 && !p.shared:
		return fmt.Errorf("the dispatch has %d bytes of threadgroup memory, but kernel %s has no parameter for it", w.ThreadgroupMemory, p.name)
	case w.ThreadgroupMemory == 0 && p.shared && !p.maybe:
		return fmt.Errorf("the dispatch has no threadgroup memory, but kernel %s has a parameter for it", p.name)
	case w.ThreadgroupMemory > 227<<10 || w.ThreadgroupMemory > 32<<10 && !p.maybe || w.ThreadgroupMemory%16 != 0:
		return fmt.Errorf("the threadgroup memory is %d bytes: it must be a multiple of 16 and at most 32 KB, or 227 KB for kernels in CUDA C++", w.ThreadgroupMemory)
	case threads < 32 || threads > 1024 || threads%32 != 0:
		return fmt.Errorf("the threadgroups have %v threads: the product must be a multiple of 32 and at most 1024", w.Threads)
	case min(w.Groups[0], w.Groups[1], w.Groups[2]) < 1:
		return fmt.Errorf("the grid is %v threadgroups: each dimension must be at least 1", w.Groups)
	}
	for i, b := range w.Buffers {
		if m := d.buffer(b.Buffer); b.Offset < 0 || b.Offset >= m.bytes || b.Offset%4 != 0 {
			return fmt.Errorf("buffer %d is bound at byte %d: the offset must be a multiple of 4 and less than the buffer's %d bytes", i, b.Offset, m.bytes)
		}
	}
	return nil
}

func (d *Device) dispatch(w *metal.Dispatch) error {
	p, l := d.pipelines[w.Pipeline-1], &d.workers.launch
	d.bindings = d.bindings[:0]
	for _, b := range w.Buffers {
		m := d.buffer(b.Buffer)
		low := address(m.memory)
		d.bindings = append(d.bindings, bindingC{low, low + uintptr(b.Offset), low + uintptr(m.bytes)})
	}
	d.bindings = append(d.bindings, bindingC{}) // the list must not be empty, since its address is passed to C
	l.buffers, l.constants, l.args = &d.bindings[0], &p.constants[0], nil
	if len(w.Args) > 0 {
		l.args = &w.Args[0]
	}
	l.sharedSize, l.threads, l.seed = uint32(w.ThreadgroupMemory), uint32(w.Threads[0]*w.Threads[1]*w.Threads[2]), 0
	for i, n := range w.Groups {
		l.groups[i] = uint32(n)
	}
	if d.options.Seed != 0 {
		l.seed = d.random.Uint32() | 1
	}
	d.workers.run, d.workers.own, d.workers.entry = p.library.run, p.library.workers, p.index
	return d.workers.do()
}

// Wait implements metal.Device.
func (d *Device) Wait(t metal.Ticket) (metal.Timing, error) {
	if t <= d.waited || t > d.ticket {
		return metal.Timing{}, fmt.Errorf("wait for submission %d: the submission is not in flight", t)
	}
	d.counters.Waits++
	d.waited = t
	var first error
	for len(d.failures) > 0 && d.failures[0].ticket <= t {
		if first == nil {
			first = d.failures[0].err
		}
		d.failures = d.failures[1:]
	}
	return d.timing, first
}

// Memory implements metal.Device.
func (d *Device) Memory() int { return d.memory }

// Counters implements metal.Device.
func (d *Device) Counters() metal.Counters { return d.counters }

// StartCapture implements metal.Device.
func (d *Device) StartCapture(string) error {
	return errors.New("capture the GPU's work: the emulator has no GPU; use --backend metal on a Mac")
}

// StopCapture implements metal.Device.
func (d *Device) StopCapture() error {
	return errors.New("end a capture: the emulator has no GPU")
}

// Close implements metal.Device.
func (d *Device) Close() error {
	for i, b := range d.buffers {
		if b != nil {
			d.FreeBuffer(metal.Buffer(i + 1))
		}
	}
	d.workers.close()
	for _, l := range d.libraries {
		l.freeWorkers(l.workers)
	}
	d.libraries = nil
	return nil
}
