package host

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is a loaded library of compiled kernels.
type library struct {
	run     uintptr // ingot_run
	kernels map[string]kernel
}

// kernel is what a library says of a kernel.
type kernel struct {
	index   uint32
	buffers int
	args    int // bytes of its argument struct
	shared  bool
}

// entryC is Entry of runtime.h.
type entryC struct {
	name                      *byte
	_                         uintptr // the kernel
	buffers, argsSize, shared uint32
	_                         uint32
}

// loaded holds the libraries of the process. They stay: their fibres' stacks and workers can be used again.
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
	list, err := purego.Dlsym(handle, "ingot_entries")
	if err != nil {
		return nil, fmt.Errorf("load compiled kernels: %w", err)
	}
	var entries func(count *uint32) *entryC
	purego.RegisterFunc(&entries, list)
	var count uint32
	first := entries(&count)
	for i, e := range unsafe.Slice(first, count) {
		l.kernels[goString(e.name)] = kernel{uint32(i), int(e.buffers), int(e.argsSize), e.shared != 0}
	}
	loaded.byPath[path] = l
	return l, nil
}

// goString copies a C string.
func goString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
