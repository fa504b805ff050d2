package metal

import "unsafe"

// The argument structs of the kernels, with the fields in the order of kernels/*.metal. Every field has 4 bytes.
type (
	normArgs struct {
		cols, srcStride, dstStride uint32
		eps                        float32
	}
	embedArgs struct {
		cols, rowBytes, tokenStride, dstStride uint32
	}
	gatherArgs struct {
		cols, srcStride, dstStride uint32
	}
	productArgs struct {
		n, rowBytes, rows  uint32
		xStride, dstStride uint32
		xMatrix, dstMatrix uint32
		add                uint32
		out                [3]uint32
		groups0, groups1   uint32
	}
	gatedArgs struct {
		n, rowBytes, rows, xStride, dstStride, out uint32
	}
	gateArgs struct {
		cols, stride, dstStride uint32
	}
	ropeStoreArgs struct {
		stride, heads, kvHeads, keyDim, valueDim, dims, pageSize uint32
	}
	latentsArgs struct {
		stride, q, latent, dims, pageSize uint32
		eps                               float32
	}
	absorbArgs struct {
		nope, latent, dims, rowBytes, rows, qStride, dstStride, groups uint32
	}
	attentionArgs struct {
		heads, kvHeads, keyDim, valueDim, qStride, dstStride, pageSize uint32
		latent, splits                                                 uint32
		scale                                                          float32
	}
	routeArgs struct {
		n, rowBytes, experts, used, xStride, dstStride uint32
		sigmoid, normalise, biased                     uint32
		scale                                          float32
	}
	gatedExpertsArgs struct {
		n, rowBytes, out, used, sharedOut, xStride, routingStride, dstStride, groups uint32
	}
	expertsAddArgs struct {
		n, rowBytes, out, used, sharedN, sharedRowBytes, hStride, routingStride, dstStride uint32
	}
	tileArgs struct {
		n, rowBytes, out, rows, xStride, dstStride, xMatrix, dstMatrix, add uint32
	}
	groupArgs struct {
		rows, used, experts, routingStride, tiles uint32
	}
	expertTileArgs struct {
		n, rowBytes, out, used, xStride, dstStride uint32
	}
	weighArgs struct {
		cols, used, routingStride, dstStride uint32
	}
	topArgs struct {
		cols, k, srcStride, dstStride uint32
	}
)

// bytesOf returns the memory of a struct. The GPU has the byte order of the CPU.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// valuesOf returns memory as values of a type. The memory must be aligned for them, as that of buffers is.
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
