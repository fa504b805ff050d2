package apple

import (
	"math/bits"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// executor runs the fake's work on another metal.Device.
type executor struct {
	id       uintptr
	device   metal.Device
	dispatch []metal.Dispatch
	bindings []metal.Binding
}

// functions mirrors Executor of control.h.
type functions struct {
	id, compile, kernel, buffer, free, run uintptr
}

// running maps ids to executors. All fakes share the C functions that are made from Go functions,
// since such C functions are never freed.
var running = struct {
	sync.Mutex
	last uintptr
	byID map[uintptr]*executor
}{byID: map[uintptr]*executor{}}

var callbacks = sync.OnceValue(func() functions {
	return functions{
		compile: purego.NewCallback(func(id uintptr, text *byte, mode uintptr, message *byte) uintptr {
			return find(id).compile(text, mode, message)
		}),
		kernel: purego.NewCallback(func(id, library uintptr, name *byte, constants *uint32, mask uintptr, message *byte) uintptr {
			return find(id).kernel(library, name, constants, mask, message)
		}),
		buffer: purego.NewCallback(func(id, bytes uintptr, memory **byte) uintptr { return find(id).buffer(bytes, memory) }),
		free: purego.NewCallback(func(id, handle uintptr) uintptr {
			find(id).device.FreeBuffer(metal.Buffer(handle))
			return 0
		}),
		run: purego.NewCallback(func(id uintptr, work *fakeWork, count uintptr, message *byte) uintptr {
			return find(id).run(unsafe.Slice(work, count), message)
		}),
	}
})

func find(id uintptr) *executor {
	running.Lock()
	defer running.Unlock()
	return running.byID[id]
}

func (s *fake) carryOut(handle uintptr, device metal.Device) {
	var at func() *functions
	purego.RegisterLibFunc(&at, handle, "fake_executor")
	running.Lock()
	defer running.Unlock()
	running.last++
	s.executor = executor{id: running.last, device: device}
	running.byID[running.last] = &s.executor
	f := callbacks()
	f.id = running.last
	*at() = f
}

func (s *fake) closeExecutor() {
	if s.executor.device == nil {
		return
	}
	running.Lock()
	delete(running.byID, s.executor.id)
	running.Unlock()
	require.NoError(s.tb, s.executor.device.Close())
}

func (e *executor) compile(text *byte, mode uintptr, message *byte) uintptr {
	lib, err := e.device.Compile(metal.Source{Name: "source", Text: goString(text)}, metal.Mode(mode))
	report(err, message)
	return uintptr(lib)
}

func (e *executor) kernel(library uintptr, name *byte, values *uint32, mask uintptr, message *byte) uintptr {
	var constants []metal.Constant
	for rest := uint64(mask); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		constants = append(constants, metal.Constant{Index: i, Value: unsafe.Slice(values, i+1)[i]})
	}
	p, err := e.device.Pipeline(metal.Library(library), goString(name), constants)
	report(err, message)
	return uintptr(p)
}

// buffer makes a shared buffer for every storage, so that C can copy its memory.
func (e *executor) buffer(bytes uintptr, memory **byte) uintptr {
	b, err := e.device.NewBuffer(int(bytes), metal.Shared)
	if err != nil {
		return 0
	}
	*memory = &e.device.Contents(b)[0]
	return uintptr(b)
}

func (e *executor) run(work []fakeWork, message *byte) uintptr {
	e.dispatch, e.bindings = e.dispatch[:0], e.bindings[:0]
	for i := range work {
		w := &work[i]
		from := len(e.bindings)
		for b := range w.Bound {
			e.bindings = append(e.bindings, metal.Binding{Buffer: metal.Buffer(w.Buffers[b]), Offset: int(w.Offsets[b])})
		}
		e.dispatch = append(e.dispatch, metal.Dispatch{
			Name: "work", Pipeline: metal.Pipeline(w.Pipeline), Buffers: e.bindings[from:], Args: w.Args[:w.ArgsSize],
			ThreadgroupMemory: int(w.Shared), Groups: ints(w.Groups), Threads: ints(w.Threads), Barrier: w.Barrier != 0,
		})
	}
	t, err := e.device.Submit(e.dispatch)
	if err == nil {
		_, err = e.device.Wait(t)
	}
	if err != nil {
		report(err, message)
		return 1
	}
	return 0
}

func ints(v [3]uint64) [3]int { return [3]int{int(v[0]), int(v[1]), int(v[2])} }

// report writes the text of an error to C, at most error_size (control.h) bytes.
func report(err error, message *byte) {
	if err == nil {
		return
	}
	room := unsafe.Slice(message, 8192)
	room[copy(room[:len(room)-1], err.Error())] = 0
}

func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
