package cuda

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-run/ingot/metal"
)

// library is a source of kernels with its compiled modules: one for each set of function constants
// that was requested.
type library struct {
	name      string
	text      string // CUDA C++
	flags     []string
	constants bool // whether the source has function constants
	isCUDA    bool // whether the source is CUDA C++

	compiling sync.Mutex         // guards modules
	modules   map[string]*module // by the compiler flags that define the constants
}

// module is compiled code. It is loaded when the first pipeline of one of its kernels is made.
type module struct {
	code    []byte
	symbols map[string]string // symbol of each kernel, by the kernel's name
	handle  uintptr           // 0 until it is loaded
}

// pipeline is a kernel that is ready to run.
type pipeline struct {
	function uintptr
	name     string
	info     metal.PipelineInfo
	isCUDA   bool // written in CUDA C++
}

// constantUse matches sources that have function constants.
var constantUse = regexp.MustCompile(`(?m)^CONSTANT\(`)

// Compile implements metal.Device. A source with function constants is compiled later, when their
// values are known. Kernels in CUDA C++ are extern "C" functions without function constants. Their
// parameters are a pointer for each buffer of the dispatch, followed by the argument struct by
// value.
func (d *Device) Compile(src metal.Source, mode metal.Mode) (metal.Library, error) {
	if src.CUDA {
		return d.compile(&library{name: src.Name, text: src.Text, flags: d.compiler.flags(mode), isCUDA: true}, mode, nil)
	}
	text, err := source(src.Text)
	if err != nil {
		return 0, fmt.Errorf("compile kernels %s: %w", src.Name, err)
	}
	l := &library{name: src.Name, text: text, flags: d.compiler.flags(mode), constants: constantUse.MatchString(src.Text)}
	return d.compile(l, mode, src.Constants)
}

// compile makes the modules of a library: one without function constants and one for each of the
// given sets, at the same time.
func (d *Device) compile(l *library, mode metal.Mode, sets [][]metal.Constant) (metal.Library, error) {
	l.modules = map[string]*module{}
	var group errgroup.Group
	for _, set := range append(slices.Clone(sets), nil) {
		group.Go(func() error {
			_, err := d.module(l, set)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if math, debug := mathMode(mode), mode == metal.Debug; d.info.MathMode != math || d.debug != debug {
		d.info.MathMode, d.debug = math, debug
	}
	d.libraries = append(d.libraries, l)
	return metal.Library(len(d.libraries)), nil
}

// module returns a library's module for a set of constants. Each module is compiled once.
func (d *Device) module(l *library, constants []metal.Constant) (*module, error) {
	var set []string
	for _, c := range constants {
		set = append(set, fmt.Sprintf("-DINGOT_CONSTANT_%d=%d", c.Index, c.Value))
	}
	if l.constants && set == nil {
		set = []string{"-DINGOT_NO_CONSTANTS"}
	}
	key := strings.Join(set, " ")
	l.compiling.Lock()
	have, ok := l.modules[key]
	l.compiling.Unlock()
	if ok {
		return have, nil
	}
	code, err := d.compiler.cubin(l.name, l.text, slices.Concat(l.flags, set))
	if err != nil {
		return nil, fmt.Errorf("compile kernels %s: %w", l.name, err)
	}
	m := &module{code: code}
	if m.symbols, err = symbols(code); err != nil {
		return nil, fmt.Errorf("compile kernels %s: %w", l.name, err)
	}
	l.compiling.Lock()
	defer l.compiling.Unlock()
	l.modules[key] = m
	return m, nil
}

// symbols maps the name of each kernel in compiled code to its symbol. For a kernel that
// INSTANTIATE has named, the name is stored as data in the code (see library.h). For other kernels,
// the name is the symbol.
func symbols(code []byte) (map[string]string, error) {
	if len(code) < 64 {
		return nil, fmt.Errorf("read compiled kernels: the code has only %d bytes, so it is not an ELF file", len(code))
	}
	// NVIDIA stores its own numbers in the fields for ELF's version. Package elf refuses these
	// numbers.
	plain := slices.Clone(code)
	plain[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	binary.LittleEndian.PutUint32(plain[20:], uint32(elf.EV_CURRENT))
	file, err := elf.NewFile(bytes.NewReader(plain))
	if err != nil {
		return nil, fmt.Errorf("read compiled kernels: %w", err)
	}
	list, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read compiled kernels: %w", err)
	}
	found := map[string]string{}
	for _, s := range list {
		id, named := strings.CutPrefix(s.Name, "ingot_name_")
		switch {
		case named:
			data, err := file.Sections[s.Section].Data()
			if err != nil || s.Value+s.Size > uint64(len(data)) {
				return nil, errors.Join(errors.New("read compiled kernels: the name of "+id+" is missing"), err)
			}
			name, _, _ := bytes.Cut(data[s.Value:s.Value+s.Size], []byte{0})
			found[string(name)] = "ingot_" + id
		case elf.ST_TYPE(s.Info) == elf.STT_FUNC && elf.ST_BIND(s.Info) == elf.STB_GLOBAL && !strings.HasPrefix(s.Name, "ingot_"):
			found[s.Name] = s.Name
		}
	}
	return found, nil
}

// Pipeline implements metal.Device.
func (d *Device) Pipeline(lib metal.Library, function string, constants []metal.Constant) (metal.Pipeline, error) {
	l := d.library(lib)
	if l == nil {
		return 0, fmt.Errorf("make a pipeline of kernel %s: library %d does not exist", function, lib)
	}
	m, err := d.module(l, constants)
	if err != nil {
		return 0, fmt.Errorf("make a pipeline of kernel %s: %w", function, err)
	}
	symbol, ok := m.symbols[function]
	if !ok {
		return 0, fmt.Errorf("make a pipeline of kernel %s: the library has no kernel of this name", function)
	}
	p := pipeline{name: function, isCUDA: l.isCUDA}
	if err := d.do(func() error { return d.load(&p, m, symbol) }); err != nil {
		return 0, fmt.Errorf("make a pipeline of kernel %s: %w", function, err)
	}
	d.pipelines = append(d.pipelines, p)
	d.counters.Pipelines++
	return metal.Pipeline(len(d.pipelines)), nil
}

// library returns a library, or nil if it does not exist.
func (d *Device) library(lib metal.Library) *library {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if lib == 0 || int(lib) > len(d.libraries) {
		return nil
	}
	return d.libraries[lib-1]
}

// load loads a kernel. It loads the kernel's module first if necessary.
func (d *Device) load(p *pipeline, m *module, symbol string) error {
	c := d.driver
	if m.handle == 0 {
		handle, err := c.value(cuModuleLoadData, address(m.code))
		if err != nil {
			return err
		}
		m.handle, m.code = uintptr(handle), nil
		d.modules = append(d.modules, m)
	}
	f, err := c.value(cuModuleGetFunction, m.handle, c.cString(symbol))
	if err != nil {
		return err
	}
	p.function = uintptr(f)
	threads, err := c.integer(cuFuncGetAttribute, functionMaxThreads, p.function)
	if err != nil {
		return err
	}
	own, err := c.integer(cuFuncGetAttribute, functionSharedBytes, p.function)
	if err != nil {
		return err
	}
	p.info = metal.PipelineInfo{MaxThreads: threads &^ 31, SimdWidth: 32, ThreadgroupMemory: own}
	// More than 48 KB of threadgroup memory must be requested per kernel.
	return c.call(cuFuncSetAttribute, p.function, functionMaxDynShared, uintptr(d.info.ThreadgroupMemory-own))
}

// PipelineInfo implements metal.Device.
func (d *Device) PipelineInfo(p metal.Pipeline) metal.PipelineInfo {
	if p == 0 || int(p) > len(d.pipelines) {
		return metal.PipelineInfo{}
	}
	return d.pipelines[p-1].info
}
