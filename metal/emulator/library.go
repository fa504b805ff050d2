package emulator

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ingot-run/ingot/metal"
)

// library is a loaded library of compiled kernels. It has no state, so devices can share it;
// workers belong to one device.
type library struct {
	run        uintptr // ingot_run
	newWorker  func() uintptr
	freeWorker func(worker uintptr)
	kernels    map[string]kernel
}

// kernel describes a kernel of a library.
type kernel struct {
	index   uint32
	buffers int
	args    int // bytes of its argument struct
	shared  bool
	maybe   bool // a launch of the kernel may have no threadgroup memory
}

// entryC is Entry of runtime.h.
type entryC struct {
	name                      *byte
	_                         uintptr // the kernel
	buffers, argsSize, shared uint32
	_                         uint32
}

// loaded holds the libraries that the process has loaded. They are never unloaded, so that later
// devices can use them.
var loaded = struct {
	sync.Mutex
	byPath map[string]*library
}{byPath: map[string]*library{}}

func load(path string) (*library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if l, ok := loaded.byPath[path]; ok {
		return l, nil
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load compiled kernels: %w", err)
	}
	l := &library{kernels: map[string]kernel{}}
	if l.run, err = purego.Dlsym(handle, "ingot_run"); err != nil {
		return nil, fmt.Errorf("load compiled kernels: %w", err)
	}
	var entries func(count *uint32) *entryC
	for name, function := range map[string]any{
		"ingot_entries": &entries, "ingot_worker_new": &l.newWorker, "ingot_worker_free": &l.freeWorker,
	} {
		at, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("load compiled kernels: %w", err)
		}
		purego.RegisterFunc(function, at)
	}
	var count uint32
	first := entries(&count)
	for i, e := range unsafe.Slice(first, count) {
		l.kernels[goString(e.name)] = kernel{uint32(i), int(e.buffers), int(e.argsSize), e.shared != 0, e.shared == 2}
	}
	loaded.byPath[path] = l
	return l, nil
}

// makeWorkers makes n workers with their fibres and stacks. The caller must free them with
// freeWorkers.
func (l *library) makeWorkers(n int) ([]uintptr, error) {
	made := make([]uintptr, 0, n)
	for range n {
		w := l.newWorker()
		if w == 0 {
			l.freeWorkers(made)
			return nil, fmt.Errorf("make the stacks of %d workers: %w", n, metal.ErrMemory)
		}
		made = append(made, w)
	}
	return made, nil
}

func (l *library) freeWorkers(made []uintptr) {
	for _, w := range made {
		l.freeWorker(w)
	}
}

func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
