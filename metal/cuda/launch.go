package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// launches is a submission's launches, serialised so that equal submissions are equal bytes: for each launch a header, then the
// kernel's parameters.
type launches []byte

// launchHeader is what a launch is without its parameters.
type launchHeader struct {
	function uintptr
	groups   [3]uint32
	threads  uint32
	shared   uint32 // bytes of threadgroup memory
	barrier  uint32 // 1 where it waits for all launches before it
	size     uint32 // bytes of parameters
	dispatch uint32 // that it is of
}

const launchHeaderBytes = int(unsafe.Sizeof(launchHeader{}))

// add adds the launches of a dispatch: several where its grid is too high for one.
func (l launches) add(d *Device, w *metal.Dispatch, dispatch int) launches {
	p := &d.pipelines[w.Pipeline-1]
	for y := 0; y < w.Groups[1]; y += maxGroups {
		at := len(l)
		l = append(l, make([]byte, launchHeaderBytes)...)
		// Its buffers' addresses and its argument struct are the kernel's parameters, in this order, and then the first threadgroup
		// in y, where the kernel is translated: see source.go.
		for _, b := range w.Buffers {
			l = binary.NativeEndian.AppendUint64(l, uint64(d.buffers[b.Buffer-1].address)+uint64(b.Offset))
		}
		l = append(l, w.Args...)
		if !p.native {
			l = binary.NativeEndian.AppendUint32(l, uint32(y))
		}
		h := launchHeader{
			function: p.function, groups: [3]uint32{uint32(w.Groups[0]), uint32(min(w.Groups[1]-y, maxGroups)), uint32(w.Groups[2])},
			threads: uint32(w.Threads[0]), shared: uint32(w.ThreadgroupMemory), size: uint32(len(l) - at - launchHeaderBytes), dispatch: uint32(dispatch),
		}
		if w.Barrier && y == 0 {
			h.barrier = 1
		}
		for len(l)%8 != 0 {
			l = append(l, 0)
		}
		*(*launchHeader)(unsafe.Pointer(&l[at])) = h
	}
	return l
}

// next splits the first launch off.
func (l launches) next() (h *launchHeader, parameters, rest launches) {
	h = (*launchHeader)(unsafe.Pointer(&l[0]))
	end := launchHeaderBytes + int(h.size)
	return h, l[launchHeaderBytes:end], l[(end+7)&^7:]
}

// extra is the parameters of a kernel as CUDA finds them, in memory that does not move.
type extra struct {
	size  uint64
	words [5]uintptr
}

// Names of what words has: CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
const (
	launchPointer = 1
	launchSize    = 2
)

// set has CUDA find parameters, and returns where.
func (e *extra) set(parameters launches) uintptr {
	e.size = uint64(len(parameters))
	e.words = [5]uintptr{launchPointer, address(parameters), launchSize, uintptr(unsafe.Pointer(&e.size)), 0}
	return uintptr(unsafe.Pointer(&e.words))
}

// launch starts the launches one after another.
func (d *Device) launch(l launches, work []metal.Dispatch) error {
	for rest := l; len(rest) > 0; {
		var h *launchHeader
		var parameters launches
		h, parameters, rest = rest.next()
		err := d.driver.call(cuLaunchKernel, h.function,
			uintptr(h.groups[0]), uintptr(h.groups[1]), uintptr(h.groups[2]), uintptr(h.threads), 1, 1,
			uintptr(h.shared), d.stream, 0, d.queue.extra.set(parameters))
		if err == nil && d.debug {
			err = d.driver.call(cuStreamSynchronize, d.stream) // so that a fault has the name of its kernel
		}
		if err != nil {
			w := &work[h.dispatch]
			return fmt.Errorf("dispatch %d, %s, kernel %s: %w", h.dispatch, w.Name, d.pipelines[w.Pipeline-1].name, err)
		}
	}
	runtime.KeepAlive(l)
	return nil
}
