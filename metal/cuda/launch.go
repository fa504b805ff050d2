package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ingot-run/ingot/metal"
)

// launches holds the launches of a submission as bytes, so that submissions can be compared. Each
// launch is a launchHeader followed by the kernel's parameters.
type launches []byte

// launchHeader describes a launch, except for its parameters.
type launchHeader struct {
	function uintptr
	groups   [3]uint32
	threads  uint32
	shared   uint32 // bytes of threadgroup memory
	barrier  uint32 // 1 if the launch waits for all launches before it
	size     uint32 // bytes of parameters
	dispatch uint32 // index of the launch's dispatch
}

const launchHeaderBytes = int(unsafe.Sizeof(launchHeader{}))

// add adds the launches of a dispatch. A dispatch needs several launches if its grid has too many
// threadgroups in y.
func (l launches) add(d *Device, w *metal.Dispatch, dispatch int) launches {
	p := &d.pipelines[w.Pipeline-1]
	for y := 0; y < w.Groups[1]; y += maxGroups {
		at := len(l)
		l = append(l, make([]byte, launchHeaderBytes)...)
		// The kernel's parameters are the addresses of the buffers, then the argument struct. A
		// translated kernel also has the number of the first threadgroup in y as its last
		// parameter: see source.go.
		for _, b := range w.Buffers {
			l = binary.NativeEndian.AppendUint64(l, uint64(d.buffers[b.Buffer-1].address)+uint64(b.Offset))
		}
		l = append(l, w.Args...)
		if !p.isCUDA {
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

// next returns the header and the parameters of the first launch, and the launches after it.
func (l launches) next() (h *launchHeader, parameters, rest launches) {
	h = (*launchHeader)(unsafe.Pointer(&l[0]))
	end := launchHeaderBytes + int(h.size)
	return h, l[launchHeaderBytes:end], l[(end+7)&^7:]
}

// barriers appends, for each launch, whether it has a barrier.
func (l launches) barriers(dst []byte) []byte {
	for len(l) > 0 {
		var h *launchHeader
		h, _, l = l.next()
		dst = append(dst, byte(h.barrier))
	}
	return dst
}

// equal reports whether two launches, apart from their parameters, are the same to the GPU.
func (h *launchHeader) equal(other *launchHeader) bool {
	return h.function == other.function && h.groups == other.groups && h.threads == other.threads && h.shared == other.shared
}

// begins reports whether the first launch has a barrier.
func (l launches) begins() bool { return (*launchHeader)(unsafe.Pointer(&l[0])).barrier != 0 }

// extra is the argument of a launch that gives CUDA the address and size of the parameters. It must
// not move in memory.
type extra struct {
	size  uint64
	words [5]uintptr
}

// Keys in extra.words: CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
const (
	launchPointer = 1
	launchSize    = 2
)

// set stores the address and size of parameters and returns the address of e.words, for CUDA.
func (e *extra) set(parameters launches) uintptr {
	e.size = uint64(len(parameters))
	e.words = [5]uintptr{launchPointer, address(parameters), launchSize, uintptr(unsafe.Pointer(&e.size)), 0}
	return uintptr(unsafe.Pointer(&e.words))
}

func (d *Device) launch(l launches, work []metal.Dispatch) error {
	for rest := l; len(rest) > 0; {
		var h *launchHeader
		var parameters launches
		h, parameters, rest = rest.next()
		err := d.driver.call(cuLaunchKernel, h.function,
			uintptr(h.groups[0]), uintptr(h.groups[1]), uintptr(h.groups[2]), uintptr(h.threads), 1, 1,
			uintptr(h.shared), d.stream, 0, d.queue.extra.set(parameters))
		if err == nil && d.debug {
			err = d.driver.call(cuStreamSynchronize, d.stream) // wait, so that the error of a fault names the kernel
		}
		if err != nil {
			w := &work[h.dispatch]
			return fmt.Errorf("dispatch %d, %s, kernel %s: %w", h.dispatch, w.Name, d.pipelines[w.Pipeline-1].name, err)
		}
	}
	runtime.KeepAlive(l)
	return nil
}
