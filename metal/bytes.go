package metal

import "unsafe"

// The argument structs of the kernels are declared in the files of the operations that fill them. Their fields have the order of
// the structs in kernels/*.metal. Every field has 4 bytes.

// bytesOf returns the memory of a struct. The GPU has the byte order of the CPU.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// valuesOf returns memory as values of a type. The memory must be aligned for that type; the memory of buffers is.
func valuesOf[T any](memory []byte) []T {
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), len(memory)/int(unsafe.Sizeof(v)))
}

func flag(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

func floatBytes(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

func bytesOfInts(v []int32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
