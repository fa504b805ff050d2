// Package cuda implements metal.Device for NVIDIA's GPUs of compute capability 7.5 and later. It
// translates kernels in Metal's language to CUDA C++, compiles them with NVRTC for the installed
// GPU, and launches them through libcuda. It loads both libraries when a device is opened; the
// program is not linked with them.
package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// ErrClosed is wrapped by the errors of a closed device's methods.
var ErrClosed = errors.New("the device is closed")

// Minimum compute capabilities, times 10: of the kernels in Metal's language, and of those in CUDA
// C++, which copy asynchronously and multiply 16 by 16 values of float16 per instruction.
const (
	minCapability       = 75
	minNvidiaCapability = 80
)

// reserved is the number of bytes of the GPU's memory that is left for code, the threads' local
// memory and the driver. Graphs take memory besides this; see graphLimit.
const reserved = 512 << 20

// Device implements metal.Device.
type Device struct {
	driver   *driver
	compiler *compiler
	ordinal  int
	device   uintptr // CUdevice
	context  uintptr
	stream   uintptr
	copies   uintptr // a second stream, for copies to the CPU while submitted work runs; 0 if there is none
	info     metal.Info
	closed   bool
	lost     error // the error after which the context cannot be used; nil before
	debug    bool  // whether kernels are compiled in mode Debug; each launch is then waited for
	overlaps bool  // whether a kernel of a graph can start before the kernels on which it depends end; see graph.go

	compiling sync.Mutex // guards libraries and info
	libraries []*library
	modules   []*module // loaded modules
	pipelines []pipeline
	buffers   []buffer
	memory    int // bytes of all existing buffers
	events    []uintptr
	counters  metal.Counters

	staging  staging
	upload   upload
	download download
	queue    queue
}

var _ metal.Device = (*Device)(nil)

// Open opens a GPU by its number, counted from 0. The error wraps metal.ErrUnsupported if there is
// no GPU that can run the kernels.
func Open(ordinal int) (*Device, error) {
	c, err := openDriver()
	if err != nil {
		return nil, err
	}
	d := &Device{driver: c, ordinal: ordinal}
	d.upload.run, d.download.run = d.copyUp, d.copyDown
	d.queue.run, d.queue.wait, d.queue.started = d.launchAll, d.await, time.Now()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("open GPU %d: %w", ordinal, errors.Join(err, d.Close()))
	}
	return d, nil
}

// open finds the device and makes its context, stream and events.
func (d *Device) open() error {
	c := d.driver
	if err := c.call(cuInit, 0); err != nil {
		return metal.Unsupported("start CUDA: %w", err)
	}
	count, err := c.integer(cuDeviceGetCount)
	if err != nil {
		return err
	}
	if count == 0 {
		return metal.Unsupported("CUDA finds no GPU; check that nvidia-smi lists one")
	}
	if d.ordinal >= count {
		return fmt.Errorf("there is no GPU with this number: CUDA finds %d, numbered from 0; choose one with --device", count)
	}
	handle, err := c.integer(cuDeviceGet, uintptr(d.ordinal))
	if err != nil {
		return err
	}
	d.device = uintptr(handle)
	arch, err := d.describe()
	if err != nil {
		return err
	}
	version, err := c.integer(cuDriverGetVersion)
	if err != nil {
		return err
	}
	if d.compiler, err = openCompiler(arch, version/1000); err != nil {
		return err
	}
	d.info.LanguageVersion = "3.1, translated for CUDA " + d.compiler.version
	context, err := c.value(cuDevicePrimaryCtxRetain, d.device)
	if err != nil {
		return err
	}
	d.context = uintptr(context)
	if err := c.call(cuCtxSetCurrent, d.context); err != nil {
		return err
	}
	stream, err := c.value(cuStreamCreate, streamNonBlocking)
	if err != nil {
		return err
	}
	d.stream = uintptr(stream)
	if copies, err := c.value(cuStreamCreate, streamNonBlocking); err == nil {
		d.copies = uintptr(copies)
	}
	if err := c.call(cuMemGetInfo, c.outAt(0), c.outAt(1)); err != nil {
		return err
	}
	free := int(c.out[0])
	graphs := graphLimit(free)
	d.info.Memory = max(free-reserved-graphs*launchBytes, 0)
	d.info.MaxBuffer = d.info.Memory
	if err := d.openStaging(); err != nil {
		return err
	}
	return d.openQueue(graphs)
}

// describe reads the properties of the device. It returns an error if the device is too old. arch
// is the architecture for which code is compiled, such as "sm_89".
func (d *Device) describe() (arch string, err error) {
	c := d.driver
	c.text = make([]byte, 256)
	if err := c.call(cuDeviceGetName, address(c.text), uintptr(len(c.text)), d.device); err != nil {
		return "", err
	}
	name := goString(address(c.text))
	var major, minor, threads, shared int
	for attribute, to := range map[uintptr]*int{
		attributeMajor: &major, attributeMinor: &minor, attributeMaxThreads: &threads, attributeSharedMemoryOptin: &shared,
	} {
		if *to, err = c.integer(cuDeviceGetAttribute, attribute, d.device); err != nil {
			return "", err
		}
	}
	portable, err := whyPortable(major, minor)
	if err != nil {
		return "", err
	}
	d.info = metal.Info{
		Driver: "cuda", Name: name, Family: fmt.Sprintf("sm_%d%d", major, minor),
		MaxThreadgroup: threads, ThreadgroupMemory: shared, NvidiaKernels: portable == "", Portable: portable, Warpgroups: major == 9,
		CompilesByType: true, OrderedMatrices: true,
	}
	clock, noClock := c.integer(cuDeviceGetAttribute, attributeMemoryClock, d.device)
	width, noWidth := c.integer(cuDeviceGetAttribute, attributeMemoryWidth, d.device)
	if noClock == nil && noWidth == nil {
		d.info.Bandwidth = 2 * 1e3 * float64(clock) * float64(width) / 8 // two transfers per clock
	}
	if 10*major+minor < minCapability {
		return "", metal.Unsupported("%s has compute capability %d.%d, but the kernels require 7.5 or later", d.info.Name, major, minor)
	}
	d.overlaps = major >= 9 && c.at[cuGraphAddDependencies] != 0
	if d.info.Warpgroups {
		return d.info.Family + "a", nil // with the instructions that only this architecture has
	}
	return d.info.Family, nil
}

// kernelsVariable is an environment variable for tests and benchmarks. The value "portable" leaves
// all operations to the kernels in Metal's language.
const kernelsVariable = "INGOT_CUDA_KERNELS"

// whyPortable returns why the backend must not use the kernels in CUDA C++ on a device of the given
// compute capability, or "" if it may.
func whyPortable(major, minor int) (string, error) {
	switch v := os.Getenv(kernelsVariable); {
	case v == "portable":
		return kernelsVariable + " is portable", nil
	case v == "" && 10*major+minor < minNvidiaCapability:
		return fmt.Sprintf("NVIDIA's kernels need compute capability 8.0, and this GPU has %d.%d", major, minor), nil
	case v == "":
		return "", nil
	default:
		return "", fmt.Errorf("%s is %q: unset it for NVIDIA's kernels, or set it to portable for those in Metal's language", kernelsVariable, v)
	}
}

// do runs f on a thread with the device's context. If f fails in a way that destroys the context,
// later calls return that error.
func (d *Device) do(f func() error) error {
	if d.closed {
		return ErrClosed
	}
	if d.lost != nil {
		return d.lost
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := d.driver.call(cuCtxSetCurrent, d.context)
	if err == nil {
		err = f()
	}
	if lost(err) {
		d.lost = fmt.Errorf("the GPU failed and lost the contents of its memory; start the program again: %w", err)
		return d.lost
	}
	return err
}

// event makes a CUDA event, which is destroyed with the device.
func (d *Device) event(flags uintptr) (uintptr, error) {
	e, err := d.driver.value(cuEventCreate, flags)
	if err != nil {
		return 0, err
	}
	d.events = append(d.events, uintptr(e))
	return uintptr(e), nil
}

// Flags of streams and events.
const (
	streamNonBlocking  = 1
	eventWithoutTiming = 2
)

// Info implements metal.Device. MathMode is empty until Compile is called.
func (d *Device) Info() metal.Info {
	d.compiling.Lock() // kernels may be compiled at the same time
	defer d.compiling.Unlock()
	return d.info
}

// Memory implements metal.Device. It counts only buffers.
func (d *Device) Memory() int { return d.memory }

// Counters implements metal.Device.
func (d *Device) Counters() metal.Counters { return d.counters }

var errCapture = errors.New("capture the GPU's work: the cuda driver cannot do this; run the program under Nsight Systems (nsys) or Nsight Compute (ncu) instead")

// StartCapture implements metal.Device.
func (d *Device) StartCapture(string) error { return errCapture }

// StopCapture implements metal.Device.
func (d *Device) StopCapture() error { return errCapture }

// Close implements metal.Device. It waits for submitted work. A second call does nothing.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	var err error
	if d.context != 0 {
		err = d.do(d.free)
		if d.lost != nil {
			err = nil // do has already returned the error of the lost device, and its memory is freed
		}
		err = errors.Join(err, d.driver.call(cuDevicePrimaryCtxRelease, d.device))
	}
	d.closed = true
	if err == nil && d.lost == nil && d.memory != 0 {
		err = fmt.Errorf("close CUDA: %d bytes of buffers were not freed", d.memory)
	}
	d.memory = 0
	return err
}

func (d *Device) free() error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	if d.stream != 0 {
		add(d.driver.call(cuStreamSynchronize, d.stream))
	}
	for _, g := range d.queue.graphs.all {
		add(d.destroy(g))
	}
	for _, p := range d.queue.graphs.patterns.all {
		add(p.destroy(d))
	}
	for i := range d.buffers {
		if d.buffers[i].address != 0 {
			add(d.release(&d.buffers[i]))
		}
	}
	if d.staging.address != 0 {
		add(d.driver.call(cuMemFreeHost, d.staging.address))
	}
	for _, e := range d.events {
		add(d.driver.call(cuEventDestroy, e))
	}
	for _, m := range d.modules {
		add(d.driver.call(cuModuleUnload, m.handle))
	}
	for _, stream := range []uintptr{d.copies, d.stream} {
		if stream != 0 {
			add(d.driver.call(cuStreamDestroy, stream))
		}
	}
	return errors.Join(errs...)
}

// address returns the address of a slice's memory, or 0 for a nil slice.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
