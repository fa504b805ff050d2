package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ingot-run/ingot/metal"
)

// function is a function of libcuda, an index into functions.
type function int

const (
	cuInit function = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemsetD8Async
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuModuleLoadData
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventSynchronize
	cuEventElapsedTime
	cuLaunchKernel
	cuGraphCreate
	cuGraphDestroy
	cuGraphAddKernelNode
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphExecDestroy
	cuGraphAddDependencies
	cuGraphExecKernelNodeSetParams
	functionCount
)

// functions are the names of libcuda's functions. Some names include a version.
var functions = [functionCount]string{
	cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuGetErrorName: "cuGetErrorName", cuGetErrorString: "cuGetErrorString",
	cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGet: "cuDeviceGet", cuDeviceGetName: "cuDeviceGetName",
	cuDeviceGetAttribute: "cuDeviceGetAttribute", cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain",
	cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2", cuCtxSetCurrent: "cuCtxSetCurrent",
	cuMemGetInfo: "cuMemGetInfo_v2", cuMemAlloc: "cuMemAlloc_v2", cuMemFree: "cuMemFree_v2", cuMemHostAlloc: "cuMemHostAlloc",
	cuMemFreeHost: "cuMemFreeHost", cuMemsetD8Async: "cuMemsetD8Async", cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", cuModuleLoadData: "cuModuleLoadData", cuModuleUnload: "cuModuleUnload",
	cuModuleGetFunction: "cuModuleGetFunction", cuFuncGetAttribute: "cuFuncGetAttribute", cuFuncSetAttribute: "cuFuncSetAttribute",
	cuStreamCreate: "cuStreamCreate", cuStreamDestroy: "cuStreamDestroy_v2", cuStreamSynchronize: "cuStreamSynchronize",
	cuEventCreate: "cuEventCreate", cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord",
	cuEventSynchronize: "cuEventSynchronize", cuEventElapsedTime: "cuEventElapsedTime", cuLaunchKernel: "cuLaunchKernel",
	cuGraphCreate: "cuGraphCreate", cuGraphDestroy: "cuGraphDestroy", cuGraphAddKernelNode: "cuGraphAddKernelNode",
	cuGraphInstantiate: "cuGraphInstantiateWithFlags", cuGraphLaunch: "cuGraphLaunch", cuGraphExecDestroy: "cuGraphExecDestroy",
	cuGraphAddDependencies: "cuGraphAddDependencies_v2", cuGraphExecKernelNodeSetParams: "cuGraphExecKernelNodeSetParams",
}

// Attributes of devices and functions: CUdevice_attribute and CUfunction_attribute.
const (
	attributeMaxThreads        = 1
	attributeMemoryClock       = 36 // kHz
	attributeMemoryWidth       = 37 // bits
	attributeMajor             = 75
	attributeMinor             = 76
	attributeSharedMemoryOptin = 97

	functionMaxThreads   = 0
	functionSharedBytes  = 1
	functionMaxDynShared = 8
)

// Values of CUresult that callers distinguish. After a call has returned resultDeinitialized or a
// value below it, the context cannot be used.
const (
	resultOutOfMemory = 2
	resultNoDevice    = 100

	resultDeinitialized        = 4
	resultDeviceUnavailable    = 46
	resultECCUncorrectable     = 214
	resultNVLinkUncorrectable  = 220
	resultContained            = 226
	resultIllegalAddress       = 700
	resultLaunchTimeout        = 702
	resultPrimaryContextActive = 708
	resultContextDestroyed     = 709
	resultAssert               = 710
	resultHardwareStackError   = 714
	resultIllegalInstruction   = 715
	resultMisalignedAddress    = 716
	resultInvalidAddressSpace  = 717
	resultInvalidPC            = 718
	resultLaunchFailed         = 719
	resultTensorMemoryLeak     = 721
	resultUnknown              = 999
)

// driver is libcuda. Its fields frame, out and text are the memory that calls read and write,
// because such memory must be on the heap and stay alive.
type driver struct {
	at    [functionCount]uintptr
	frame [12]uintptr // the arguments of a call
	out   [2]uint64   // the results of a call
	text  []byte      // the C string of the current call
}

// openDriver opens libcuda, which comes with the GPU's driver.
func openDriver() (*driver, error) {
	handle, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, metal.Unsupported("NVIDIA's driver (libcuda.so.1) is not installed")
	}
	d := &driver{}
	for i, name := range &functions {
		if d.at[i], err = purego.Dlsym(handle, name); err != nil && function(i) != cuGraphAddDependencies { // new in CUDA 12.3
			return nil, fmt.Errorf("find function %s in libcuda.so.1: %w; update NVIDIA's driver", name, err)
		}
	}
	return d, nil
}

// call calls a function of libcuda. Arguments that are addresses must point to live memory outside
// the Go stack.
func (d *driver) call(f function, words ...uintptr) error {
	n := copy(d.frame[:], words)
	result, _, _ := purego.SyscallN(d.at[f], d.frame[:n]...)
	if uint32(result) == 0 {
		return nil
	}
	return d.failure(f, uint32(result))
}

// resultError is the error of a failed call of libcuda.
type resultError struct {
	function string
	result   uint32 // CUresult
	name     string // such as CUDA_ERROR_ILLEGAL_ADDRESS
	text     string // CUDA's description of the result
}

func (e *resultError) Error() string {
	text := fmt.Sprintf("%s: %s (%s)", e.function, e.text, e.name)
	if e.result == resultOutOfMemory {
		text += "; lower --memory or --context, use --kv q8_0, or end other programs that use the GPU"
	}
	return text
}

func (e *resultError) Unwrap() error {
	if e.result == resultOutOfMemory {
		return metal.ErrMemory
	}
	return nil
}

func (d *driver) failure(f function, result uint32) error {
	e := &resultError{function: functions[f], result: result, name: fmt.Sprintf("error %d", result), text: "CUDA has no description of the error"}
	for get, to := range map[function]*string{cuGetErrorName: &e.name, cuGetErrorString: &e.text} {
		d.frame[0], d.frame[1] = uintptr(result), d.outAt(0)
		if r, _, _ := purego.SyscallN(d.at[get], d.frame[:2]...); uint32(r) == 0 {
			*to = goString(uintptr(d.out[0]))
		}
	}
	return e
}

// lost reports whether the GPU's context cannot be used after err, because a kernel faulted or the
// device disappeared.
func lost(err error) bool {
	var e *resultError
	if !errors.As(err, &e) {
		return false
	}
	switch e.result {
	case resultDeinitialized, resultDeviceUnavailable, resultECCUncorrectable, resultNVLinkUncorrectable, resultContained,
		resultIllegalAddress, resultLaunchTimeout, resultPrimaryContextActive, resultContextDestroyed, resultAssert,
		resultHardwareStackError, resultIllegalInstruction, resultMisalignedAddress, resultInvalidAddressSpace, resultInvalidPC,
		resultLaunchFailed, resultTensorMemoryLeak, resultUnknown:
		return true
	}
	return false
}

// outAt clears word i of out and returns its address, so that a call can write to it.
func (d *driver) outAt(i int) uintptr {
	d.out[i] = 0
	return uintptr(unsafe.Pointer(&d.out[i]))
}

// value calls a function whose first argument is the address of its result, and returns that
// result.
func (d *driver) value(f function, words ...uintptr) (uint64, error) {
	var all [6]uintptr
	all[0] = d.outAt(0)
	n := 1 + copy(all[1:], words)
	err := d.call(f, all[:n]...)
	return d.out[0], err
}

// integer is like value, for functions with a 32-bit result.
func (d *driver) integer(f function, words ...uintptr) (int, error) {
	v, err := d.value(f, words...)
	return int(int32(uint32(v))), err
}

// cString returns the address of s as a C string, which is valid until the next call.
func (d *driver) cString(s string) uintptr {
	d.text = append(append(d.text[:0], s...), 0)
	return uintptr(unsafe.Pointer(&d.text[0]))
}

func goString(address uintptr) string {
	text := pointer(address)
	if text == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(text, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(text), n))
}

// pointer returns an address in C's memory as a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
