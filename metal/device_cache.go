package metal

import (
	"errors"
	"fmt"
	"sync"
)

// CachedDevice is a device that several backends use, one after another. Close, which each backend
// calls, frees the buffers and retains the compiled kernels for the next backend. CloseDevice
// closes the device.
type CachedDevice struct {
	Device
	compiling sync.Mutex // guards libraries
	libraries map[compilation]Library
	pipelines map[string]Pipeline
	buffers   map[Buffer]bool

	submitted, waited Ticket // the last submitted ticket, and the last one that was waited for
}

// compilation is the key of a compiled library.
type compilation struct {
	text string
	mode Mode
}

// NewCachedDevice returns a CachedDevice that owns dev.
func NewCachedDevice(dev Device) *CachedDevice {
	return &CachedDevice{Device: dev, libraries: map[compilation]Library{}, pipelines: map[string]Pipeline{}, buffers: map[Buffer]bool{}}
}

// Compile implements Device.
func (d *CachedDevice) Compile(src Source, mode Mode) (Library, error) {
	c := compilation{src.Text, mode}
	d.compiling.Lock()
	lib, ok := d.libraries[c]
	d.compiling.Unlock()
	if ok {
		return lib, nil
	}
	lib, err := d.Device.Compile(src, mode)
	if err == nil {
		d.compiling.Lock()
		d.libraries[c] = lib
		d.compiling.Unlock()
	}
	return lib, err
}

// Pipeline implements Device.
func (d *CachedDevice) Pipeline(lib Library, function string, constants []Constant) (Pipeline, error) {
	key := fmt.Sprint(lib, function, constants)
	if p, ok := d.pipelines[key]; ok {
		return p, nil
	}
	p, err := d.Device.Pipeline(lib, function, constants)
	if err == nil {
		d.pipelines[key] = p
	}
	return p, err
}

// NewBuffer implements Device.
func (d *CachedDevice) NewBuffer(bytes int, storage Storage) (Buffer, error) {
	b, err := d.Device.NewBuffer(bytes, storage)
	if err == nil {
		d.buffers[b] = true
	}
	return b, err
}

// FreeBuffer implements Device.
func (d *CachedDevice) FreeBuffer(b Buffer) {
	delete(d.buffers, b)
	d.Device.FreeBuffer(b)
}

// Submit implements Device.
func (d *CachedDevice) Submit(work []Dispatch) (Ticket, error) {
	t, err := d.Device.Submit(work)
	if err == nil {
		d.submitted = t
	}
	return t, err
}

// Wait implements Device.
func (d *CachedDevice) Wait(t Ticket) (Timing, error) {
	d.waited = t
	return d.Device.Wait(t)
}

// Close waits for submitted work and frees all buffers, so that the next backend can use the
// device.
func (d *CachedDevice) Close() error {
	var err error
	if d.submitted > d.waited {
		_, err = d.Wait(d.submitted)
	}
	for b := range d.buffers {
		d.FreeBuffer(b)
	}
	return err
}

// CloseDevice closes the device.
func (d *CachedDevice) CloseDevice() error { return errors.Join(d.Close(), d.Device.Close()) }
