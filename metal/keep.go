package metal

import (
	"errors"
	"fmt"
	"sync"
)

// Kept is a device that outlives the backends on it: a backend's Close gives its buffers back, and the kernels stay compiled
// for the next one. So work that needs the memory of many models, one after another, compiles once.
type Kept struct {
	Device
	compiling sync.Mutex // held for libraries
	libraries map[compilation]Library
	pipelines map[string]Pipeline
	buffers   map[Buffer]bool

	submitted, waited Ticket // the last ones
}

// compilation is what makes a library.
type compilation struct {
	text string
	mode Mode
}

// Keep makes a device stay open until End.
func Keep(dev Device) *Kept {
	return &Kept{Device: dev, libraries: map[compilation]Library{}, pipelines: map[string]Pipeline{}, buffers: map[Buffer]bool{}}
}

// Compile implements Device.
func (k *Kept) Compile(src Source, mode Mode) (Library, error) {
	c := compilation{src.Text, mode}
	k.compiling.Lock()
	lib, ok := k.libraries[c]
	k.compiling.Unlock()
	if ok {
		return lib, nil
	}
	lib, err := k.Device.Compile(src, mode)
	if err == nil {
		k.compiling.Lock()
		k.libraries[c] = lib
		k.compiling.Unlock()
	}
	return lib, err
}

// Pipeline implements Device.
func (k *Kept) Pipeline(lib Library, function string, constants []Constant) (Pipeline, error) {
	key := fmt.Sprint(lib, function, constants)
	if p, ok := k.pipelines[key]; ok {
		return p, nil
	}
	p, err := k.Device.Pipeline(lib, function, constants)
	if err == nil {
		k.pipelines[key] = p
	}
	return p, err
}

// NewBuffer implements Device.
func (k *Kept) NewBuffer(bytes int, storage Storage) (Buffer, error) {
	b, err := k.Device.NewBuffer(bytes, storage)
	if err == nil {
		k.buffers[b] = true
	}
	return b, err
}

// FreeBuffer implements Device.
func (k *Kept) FreeBuffer(b Buffer) {
	delete(k.buffers, b)
	k.Device.FreeBuffer(b)
}

// Submit implements Device.
func (k *Kept) Submit(work []Dispatch) (Ticket, error) {
	t, err := k.Device.Submit(work)
	if err == nil {
		k.submitted = t
	}
	return t, err
}

// Wait implements Device.
func (k *Kept) Wait(t Ticket) (Timing, error) {
	k.waited = t
	return k.Device.Wait(t)
}

// Close is a backend's: it waits for what is under way and frees all buffers.
func (k *Kept) Close() error {
	var err error
	if k.submitted > k.waited {
		_, err = k.Wait(k.submitted)
	}
	for b := range k.buffers {
		k.FreeBuffer(b)
	}
	return err
}

// End closes the device.
func (k *Kept) End() error { return errors.Join(k.Close(), k.Device.Close()) }
