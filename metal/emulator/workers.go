package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// launch is Launch of runtime.h.
type launch struct {
	buffers     *bindingC
	args        *byte
	constants   *uint32
	message     *byte
	messageSize uint32
	sharedSize  uint32
	groups      [3]uint32
	threads     uint32
	seed        uint32
	next        uint32
	failed      uint32
	_           uint32
}

// bindingC is Binding of runtime.h.
type bindingC struct{ low, at, high uintptr }

// workers runs launches on several threads.
type workers struct {
	launch  launch
	message [512]byte
	run     uintptr   // ingot_run of the launch's library
	own     []uintptr // [workers] the device's workers for this library
	entry   uint32
	args    [][3]uintptr    // [workers] arguments of one call
	start   []chan struct{} // [workers-1]; the calling goroutine needs none
	done    sync.WaitGroup
	ended   sync.WaitGroup // goroutines that have not returned
}

func newWorkers(n int) *workers {
	w := &workers{args: make([][3]uintptr, n)}
	for i := range len(w.args) - 1 {
		c := make(chan struct{})
		w.start = append(w.start, c)
		w.ended.Go(func() {
			for range c {
				w.call(i + 1)
				w.done.Done()
			}
		})
	}
	return w
}

func (w *workers) close() {
	for _, c := range w.start {
		close(c)
	}
	w.ended.Wait()
}

func (w *workers) call(i int) {
	a := &w.args[i]
	a[0], a[1], a[2] = uintptr(unsafe.Pointer(&w.launch)), uintptr(w.entry), w.own[i]
	purego.SyscallN(w.run, a[:]...)
}

// do runs the launch that was set up. The caller must keep alive all memory to which the launch
// points.
func (w *workers) do() error {
	l := &w.launch
	l.message, l.messageSize, l.next, l.failed = &w.message[0], uint32(len(w.message)), 0, 0
	groups := uint64(l.groups[0]) * uint64(l.groups[1]) * uint64(l.groups[2])
	if groups == 0 || groups > math.MaxUint32/2 {
		return fmt.Errorf("the grid of %v threadgroups is too large", l.groups)
	}
	helpers := int(min(uint64(len(w.start)), groups-1))
	w.done.Add(helpers)
	for _, c := range w.start[:helpers] {
		c <- struct{}{}
	}
	w.call(0)
	w.done.Wait()
	runtime.KeepAlive(w)
	if l.failed == 0 {
		return nil
	}
	text, _, _ := bytes.Cut(w.message[:], []byte{0})
	return errors.New(string(text))
}
