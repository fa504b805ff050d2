// Package apple is the driver of metal.Device for Apple's Metal on Apple silicon. It needs no cgo: it opens the system's
// libraries and sends messages to the Objective-C runtime.
//
// One goroutine, locked to its thread, owns the device; each function that is sent to it runs in an autorelease pool of its
// own. Objects whose reference the driver holds are counted, and Close finds whether all were given back. Nothing is
// allocated in Submit and Wait.
//
// Metal's own checks are switched on from outside, by variables of the environment that it reads when a process starts:
//
//	MTL_CAPTURE_ENABLED=1     lets StartCapture write a .gputrace file, which Xcode opens
//	MTL_DEBUG_LAYER=1         checks every call against Metal's rules; a breach ends the process with its reason
//	MTL_SHADER_VALIDATION=1   checks the kernels' accesses to memory; a breach is an error of Wait
//
// metal.Debug compiles with INGOT_DEBUG defined and exact arithmetic; Metal's compiler has no level without optimisation.
package apple

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"

	"github.com/ingot-run/ingot/metal"
)

// ErrClosed is returned by the methods of a device that is closed.
var ErrClosed = errors.New("the device is closed")

// Device implements metal.Device.
type Device struct {
	objc   *objc
	thread *thread
	closed bool

	device    id
	queue     id
	info      metal.Info
	features  features
	libraries []id
	pipelines []pipeline
	buffers   []buffer
	residency residency
	staging   staging
	counters  metal.Counters
	capturing bool

	encoding  encoding
	inFlight  []submission // oldest first
	submitted metal.Ticket // the last
	faulted   bool         // the queue's work has failed: the next submission gets a new one
}

// features are what newer systems have.
type features struct {
	mathMode bool // MTLCompileOptions.mathMode, of macOS 15
}

var _ metal.Device = (*Device)(nil)

// Open opens the system's default GPU. On another system than macOS on Apple silicon, without a GPU, and with one that cannot
// run the kernels, the error wraps metal.ErrUnsupported.
func Open() (*Device, error) { return open(systemLibraries) }

// open takes the default GPU of other libraries in place of the system's.
func open(libraries []string) (*Device, error) {
	if len(libraries) == 0 {
		return nil, fmt.Errorf("open Metal: %w: it takes macOS on Apple silicon", metal.ErrUnsupported)
	}
	o, err := newObjC(libraries)
	if err != nil {
		return nil, fmt.Errorf("open Metal: %w", err)
	}
	d := &Device{objc: o, thread: startThread(o)}
	d.encoding.run, d.encoding.wait = d.encode, d.await // made once: a method value is allocated
	d.thread.do(func() { err = d.start() })
	if err != nil {
		return nil, fmt.Errorf("open Metal: %w", errors.Join(err, d.Close()))
	}
	return d, nil
}

// start finds the device and what it can do, and makes its queue.
func (d *Device) start() error {
	o := d.objc
	if err := d.find(); err != nil {
		return err
	}
	d.info = metal.Info{
		Driver: "metal", Name: o.goString(id(o.send(d.device, deviceName))), Family: d.family(),
		Memory:            int(o.send(d.device, deviceWorkingSet)),
		MaxBuffer:         int(o.send(d.device, deviceMaxBuffer)),
		MaxThreadgroup:    mostThreads,
		ThreadgroupMemory: int(o.send(d.device, deviceThreadgroupMemory)),
		UnifiedMemory:     o.sendBool(d.device, deviceUnifiedMemory),
		ResidencySets:     o.responds(d.device, deviceNewResidencySet),
	}
	if !o.sendBool(d.device, deviceSupportsFamily, familyApple7) {
		return fmt.Errorf("%w: %s is of family %q, and the kernels take Apple7 (M1) or later", metal.ErrUnsupported, d.info.Name, d.info.Family)
	}
	options := o.instance("MTLCompileOptions")
	d.features.mathMode = o.responds(options, optionsSetMathMode)
	o.release(&options)
	if err := d.newQueue(); err != nil {
		return err
	}
	return d.residency.open(d)
}

// find takes the default device, or the first of all where the system names no default.
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
		return fmt.Errorf("%w: Metal finds no device", metal.ErrUnsupported)
	}
	return nil
}

// family is the latest of Apple's families that the device is of.
func (d *Device) family() string {
	for f := mostAppleFamily; f >= familyApple1; f-- {
		if d.objc.sendBool(d.device, deviceSupportsFamily, uintptr(f)) {
			return fmt.Sprintf("Apple%d", f-familyApple1+1)
		}
	}
	return ""
}

// newQueue makes the queue, in place of the one that there may be.
func (d *Device) newQueue() error {
	d.objc.release(&d.queue)
	if d.queue = d.objc.own(id(d.objc.send(d.device, deviceNewQueue))); d.queue == 0 {
		return errors.New("make a command queue: Metal makes none")
	}
	d.residency.attach(d)
	return nil
}

// Info implements metal.Device. LanguageVersion and MathMode are known once kernels are compiled.
func (d *Device) Info() metal.Info { return d.info }

// Memory implements metal.Device: all of this process's memory on the device, that of pipelines among it.
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

// Close implements metal.Device. It waits for what is submitted. Closing twice does nothing more.
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

// free gives everything back.
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
		return fmt.Errorf("close Metal: %d references to its objects were not given back", o.owned)
	}
	return nil
}
