package metal

import "unsafe"

// The argument structs of the kernels are declared next to the operations that use them. They have
// the same fields, in the same order, as the structs in kernels/*.metal. Every field has 4 bytes.

// bytesOf returns the memory of a struct as bytes. CPU and GPU have the same byte order.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// valuesOf returns memory as values of type T. The memory must be aligned for T, as the memory of
// buffers is.
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

func bytesOfInts[T int32 | uint32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
