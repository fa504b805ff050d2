package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/internal/kernelcache"
)

// compiler is NVRTC, NVIDIA's compiler library, with the folder in which compiled kernels are
// cached.
type compiler struct {
	version string // such as "13.0"
	arch    string // architecture of the device, such as "sm_90"
	cache   string // folder of compiled kernels

	create, compile, destroy, logSize, log, codeSize, code, errorText uintptr
}

// libraries are the file names of NVRTC, each with its version of CUDA.
var libraries = []struct {
	major int
	name  string
}{{13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}}

// toolkit is the folder in which NVIDIA's packages install NVRTC. Not all systems search this
// folder for libraries.
const toolkit = "/usr/local/cuda/lib64/"

// openCompiler opens the newest installed NVRTC that is not newer than the driver. arch is the
// architecture for which it compiles, such as "sm_90". driverMajor is the major version of CUDA
// that the driver supports, such as 12.
func openCompiler(arch string, driverMajor int) (*compiler, error) {
	var tried []string
	var handle uintptr
	for _, l := range libraries {
		for _, path := range []string{l.name, toolkit + l.name} {
			if l.major > driverMajor || handle != 0 {
				continue
			}
			if h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
				handle = h
			} else {
				tried = append(tried, path)
			}
		}
	}
	if handle == 0 {
		return nil, fmt.Errorf("find NVRTC, which compiles the kernels: none of %s can be opened; install NVIDIA's package cuda-nvrtc-%d-0 or "+
			"Debian's package libnvrtc11.2, or set LD_LIBRARY_PATH to the folder of the library", strings.Join(tried, ", "), driverMajor)
	}
	c := &compiler{arch: arch}
	var version uintptr
	for name, at := range map[string]*uintptr{
		"nvrtcVersion": &version, "nvrtcCreateProgram": &c.create, "nvrtcCompileProgram": &c.compile, "nvrtcDestroyProgram": &c.destroy,
		"nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log, "nvrtcGetCUBINSize": &c.codeSize, "nvrtcGetCUBIN": &c.code,
		"nvrtcGetErrorString": &c.errorText,
	} {
		var err error
		if *at, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("find function %s in NVRTC: %w; install NVRTC of CUDA 11.2 or later", name, err)
		}
	}
	p := newProgram()
	purego.SyscallN(version, uintptr(unsafe.Pointer(&p.version[0])), uintptr(unsafe.Pointer(&p.version[1])))
	c.version = fmt.Sprintf("%d.%d", p.version[0], p.version[1])
	var err error
	if c.cache, err = kernelcache.Folder(); err != nil {
		return nil, fmt.Errorf("find a folder for compiled kernels: %w", err)
	}
	return c, nil
}

func mathMode(mode metal.Mode) string {
	if mode == metal.FastMath {
		return "relaxed"
	}
	return "safe"
}

// flags returns the compiler options of a mode. Only FastMath fuses operations that the kernels do
// not fuse explicitly. All modes handle infinities.
func (c *compiler) flags(mode metal.Mode) []string {
	common := []string{"--gpu-architecture=" + c.arch, "--std=c++17", "--device-as-default-execution-space"}
	if mode == metal.FastMath {
		return append(common, "--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false")
	}
	return append(common, "--fmad=false")
}

// cubin compiles CUDA C++ for the device and returns the code. If the cache has the code, it
// compiles nothing.
func (c *compiler) cubin(name, text string, flags []string) ([]byte, error) {
	path, err := kernelcache.File(c.cache, kernelcache.Key(text, "nvrtc", c.version, flags)+".cubin", func(path string) error {
		code, err := c.build(name, text, flags)
		if err != nil {
			return err
		}
		return os.WriteFile(path, code, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// call calls a function of NVRTC. It is safe for concurrent use. Arguments that are addresses must
// point to live memory outside the Go stack.
func (c *compiler) call(f uintptr, words ...uintptr) error {
	result, _, _ := purego.SyscallN(f, words...)
	if uint32(result) == 0 {
		return nil
	}
	text, _, _ := purego.SyscallN(c.errorText, result)
	return errors.New(goString(text))
}

// program holds the memory that a compilation passes to NVRTC. It must not move.
type program struct {
	handle  uintptr
	size    uintptr
	flags   []uintptr
	strings [][]byte
	version [2]int32
}

// newProgram makes a program on the heap. noinline is needed since escape analysis does not see
// that the address is passed to C.
//
//go:noinline
func newProgram() *program { return &program{} }

func (p *program) cString(s string) uintptr {
	b := append([]byte(s), 0)
	p.strings = append(p.strings, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// build compiles a text with NVRTC and returns the code.
func (c *compiler) build(name, text string, flags []string) (code []byte, err error) {
	p := newProgram()
	handle, size := uintptr(unsafe.Pointer(&p.handle)), uintptr(unsafe.Pointer(&p.size))
	if err := c.call(c.create, handle, p.cString(text), p.cString(name), 0, 0, 0); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, c.call(c.destroy, handle))
		runtime.KeepAlive(p)
	}()
	for _, f := range flags {
		p.flags = append(p.flags, p.cString(f))
	}
	if failed := c.call(c.compile, p.handle, uintptr(len(flags)), uintptr(unsafe.Pointer(&p.flags[0]))); failed != nil {
		log := []byte{0}
		if c.call(c.logSize, p.handle, size) == nil && p.size > 0 {
			log = make([]byte, p.size)
			_ = c.call(c.log, p.handle, uintptr(unsafe.Pointer(&log[0])))
		}
		return nil, fmt.Errorf("NVRTC %s: %w\n%s", c.version, failed, strings.TrimRight(string(log), "\x00"))
	}
	if err := c.call(c.codeSize, p.handle, size); err != nil {
		return nil, err
	}
	code = make([]byte, p.size)
	return code, c.call(c.code, p.handle, uintptr(unsafe.Pointer(&code[0])))
}
