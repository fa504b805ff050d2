// Package apple implements metal.Device with Apple's Metal on Apple silicon. It needs no cgo: it
// opens the system's libraries and sends messages through the Objective-C runtime.
//
// One goroutine, locked to its thread, owns the device. Each function that is sent to the goroutine
// runs in a separate autorelease pool. Only the compilation of libraries runs on other threads. The
// driver counts its references to objects, and Close reports leaks. Submit and Wait allocate
// nothing.
//
// Environment variables, which Metal reads when a process starts, turn on Metal's own checks:
//
//	MTL_CAPTURE_ENABLED=1     allows StartCapture to write a .gputrace file for Xcode
//	MTL_DEBUG_LAYER=1         checks every call against Metal's rules; a violation ends the process with the reason
//	MTL_SHADER_VALIDATION=1   checks the memory accesses of kernels; a violation is an error of Wait
//
// metal.Debug compiles with INGOT_DEBUG defined and precise arithmetic. Metal's compiler always
// optimises.
package apple

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/ingot-run/ingot/metal"
)

// ErrClosed is wrapped by the errors of a closed device's methods.
var ErrClosed = errors.New("the device is closed")

// Device implements metal.Device.
type Device struct {
	objc   *objc
	thread *thread
	closed bool

	device    id
	queue     id
	info      metal.Info
	supported bool // whether the GPU can run the kernels
	features  features

	compiling sync.Mutex // guards info, libraries and the count of owned references while Compile runs
	libraries []id
	pipelines []pipeline
	buffers   []buffer
	residency residency
	staging   staging
	counters  metal.Counters
	capturing bool

	encoding  encoding
	inFlight  []submission // oldest first
	submitted metal.Ticket // ticket of the last submission
	faulted   bool         // set when work of the queue has failed: the next submission makes a new queue
}

// features reports which features of newer systems are available.
type features struct {
	mathMode bool // MTLCompileOptions.mathMode, available since macOS 15
}

var _ metal.Device = (*Device)(nil)

// Open opens the system's default GPU. The error wraps metal.ErrUnsupported on systems other than
// macOS on Apple silicon and on machines without a GPU that can run the kernels.
func Open() (*Device, error) { return open(systemLibraries) }

// anyVariable is an environment variable for tests. With the value 1, GPUs of families that are too
// old are admitted: those of virtual machines on Apple silicon run the kernels, but report Apple5.
const anyVariable = "INGOT_METAL_ANY"

// open opens the default GPU of the given libraries, if it can run the kernels.
func open(libraries []string) (*Device, error) {
	d, err := openAny(libraries)
	if err != nil {
		return nil, err
	}
	if !d.supported && os.Getenv(anyVariable) != "1" {
		err := metal.Unsupported("%s is of family %q, but the kernels require Apple7 (M1) or later", d.info.Name, d.info.Family)
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openAny opens the default GPU of the given libraries, even if it cannot run the kernels. Such a
// GPU can still compile them.
func openAny(libraries []string) (*Device, error) {
	if len(libraries) == 0 {
		return nil, metal.Unsupported("Metal requires macOS on Apple silicon")
	}
	o, err := newObjC(libraries)
	if err != nil {
		return nil, err
	}
	d := &Device{objc: o, thread: startThread(o)}
	d.encoding.run, d.encoding.wait = d.encode, d.await // stored, since each evaluation of a method value allocates memory
	d.thread.do(func() { err = d.start() })
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Device) start() error {
	o := d.objc
	if err := d.find(); err != nil {
		return err
	}
	d.info = metal.Info{
		Driver: "metal", Name: o.goString(id(o.send(d.device, deviceName))), Family: d.family(),
		Memory:            int(o.send(d.device, deviceWorkingSet)),
		MaxBuffer:         int(o.send(d.device, deviceMaxBuffer)),
		MaxThreadgroup:    maxThreads,
		ThreadgroupMemory: int(o.send(d.device, deviceThreadgroupMemory)),
		UnifiedMemory:     o.sendBool(d.device, deviceUnifiedMemory),
	}
	d.supported = o.sendBool(d.device, deviceSupportsFamily, familyApple7)
	options := o.instance("MTLCompileOptions")
	d.features.mathMode = o.responds(options, optionsSetMathMode)
	o.release(&options)
	if err := d.newQueue(); err != nil {
		return err
	}
	d.info.ResidencySets = d.residency.open(d)
	return nil
}

// find sets the device to the system's default device or, if there is none, to the first device.
func (d *Device) find() error {
	byDefault, err := purego.Dlsym(d.objc.metal, "MTLCreateSystemDefaultDevice")
	if err != nil {
		return fmt.Errorf("find the default device: %w", err)
	}
	if d.device = d.objc.own(id(d.objc.call(byDefault))); d.device != 0 {
		return nil
	}
	all, err := purego.Dlsym(d.objc.metal, "MTLCopyAllDevices")
	if err != nil {
		return fmt.Errorf("find a device: %w", err)
	}
	list := d.objc.own(id(d.objc.call(all)))
	if d.objc.send(list, arrayCount) > 0 {
		d.device = d.objc.retain(id(d.objc.send(list, arrayObject, 0)))
	}
	d.objc.release(&list)
	if d.device == 0 {
		return metal.Unsupported("Metal finds no device")
	}
	return nil
}

// family returns the latest of Apple's GPU families that the device supports, such as "Apple9".
func (d *Device) family() string {
	for f := maxAppleFamily; f >= familyApple1; f-- {
		if d.objc.sendBool(d.device, deviceSupportsFamily, uintptr(f)) {
			return fmt.Sprintf("Apple%d", f-familyApple1+1)
		}
	}
	return ""
}

func (d *Device) newQueue() error {
	d.objc.release(&d.queue)
	if d.queue = d.objc.own(id(d.objc.send(d.device, deviceNewQueue))); d.queue == 0 {
		return errors.New("make a command queue: Metal returned nil")
	}
	d.residency.attach(d)
	return nil
}

// Info implements metal.Device. LanguageVersion and MathMode are empty until Compile is called.
func (d *Device) Info() metal.Info {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	return d.info
}

// Memory implements metal.Device. It counts all memory of this process on the device, including the
// memory of pipelines.
func (d *Device) Memory() int {
	if d.closed {
		return 0
	}
	var bytes int
	d.thread.do(func() { bytes = int(d.objc.send(d.device, deviceAllocated)) })
	return bytes
}

// Counters implements metal.Device.
func (d *Device) Counters() metal.Counters { return d.counters }

// Close implements metal.Device. It waits for submitted work. A second call does nothing.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	var err error
	d.thread.do(func() { err = d.free() })
	d.thread.stop()
	return err
}

func (d *Device) free() error {
	o := d.objc
	if d.capturing {
		o.send(id(o.send(o.classOf("MTLCaptureManager"), captureShared)), captureStop)
	}
	for i := range d.inFlight {
		o.send(d.inFlight[i].commands, commandsWait)
		o.release(&d.inFlight[i].commands)
	}
	d.residency.close(d)
	d.staging.free(d)
	for i := range d.buffers {
		o.release(&d.buffers[i].object)
	}
	for i := range d.pipelines {
		o.release(&d.pipelines[i].state)
	}
	for i := range d.libraries {
		o.release(&d.libraries[i])
	}
	o.release(&d.queue)
	o.release(&d.device)
	if o.owned != 0 {
		return fmt.Errorf("close Metal: %d references to objects leaked", o.owned)
	}
	return nil
}
