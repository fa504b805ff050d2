package gguf

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Type is a tensor's element type, numbered as in the file.
type Type uint32

// The element types that Ingot reads. The numbers are GGML's.
const (
	TypeF32   Type = 0
	TypeF16   Type = 1
	TypeQ40   Type = 2
	TypeQ41   Type = 3
	TypeQ50   Type = 6
	TypeQ51   Type = 7
	TypeQ80   Type = 8
	TypeQ2K   Type = 10
	TypeQ3K   Type = 11
	TypeQ4K   Type = 12
	TypeQ5K   Type = 13
	TypeQ6K   Type = 14
	TypeIQ4NL Type = 20
	TypeIQ4XS Type = 23
	TypeBF16  Type = 30
	TypeMXFP4 Type = 39
)

type typeInfo struct {
	name       string
	blockSize  int // weights per block
	blockBytes int // bytes per block; 0 if only the name is known and the type is not readable
	// dequantise writes the weights of one block. For types with blocks of one weight, it writes
	// any number of weights.
	dequantise func(y []float32, b []byte)
	// quantise is the inverse of dequantise. It is nil for types that Ingot only reads.
	quantise func(b []byte, x []float32)
	scales   []blockScale
	// exponent reports whether a block's scale is a power of two, stored in one byte as its
	// exponent. The scales of other types are float16.
	exponent bool
}

type blockScale struct {
	at int // offset in the block
	// size is for Randomize: the scale with which random blocks have weights with a standard
	// deviation of about 1. For a type with minimums, the scale of the minimums has the sign that
	// makes the mean of the weights about zero.
	size float64
}

// types has every type that has a number in GGML. Types that Ingot cannot read have only a name,
// for the error. It is an array and not a map, because attention looks up a type's layout for every
// page. To make a type readable, fill in its element.
var types = [...]typeInfo{
	TypeF32:  {name: "F32", blockSize: 1, blockBytes: 4, dequantise: dequantF32, quantise: quantF32},
	TypeF16:  {name: "F16", blockSize: 1, blockBytes: 2, dequantise: dequantF16, quantise: quantF16},
	TypeBF16: {name: "BF16", blockSize: 1, blockBytes: 2, dequantise: dequantBF16, quantise: quantBF16},
	TypeQ40:  {"Q4_0", 32, 18, dequantQ4_0, quantQ4_0, []blockScale{{0, 0.2}}, false},
	TypeQ41:  {"Q4_1", 32, 20, dequantQ4_1, nil, []blockScale{{0, 0.2}, {2, -1.5}}, false},
	TypeQ50:  {"Q5_0", 32, 22, dequantQ5_0, nil, []blockScale{{0, 0.1}}, false},
	TypeQ51:  {"Q5_1", 32, 24, dequantQ5_1, nil, []blockScale{{0, 0.1}, {2, -1.5}}, false},
	TypeQ80:  {"Q8_0", 32, 34, dequantQ8_0, quantQ8_0, []blockScale{{0, 0.0135}}, false},
	TypeQ2K:  {"Q2_K", 256, 84, dequantQ2K, nil, []blockScale{{80, 0.08}, {82, 0.12}}, false},
	TypeQ3K:  {"Q3_K", 256, 110, dequantQ3K, nil, []blockScale{{108, 0.023}}, false},
	TypeQ4K:  {"Q4_K", 256, 144, dequantQ4K, nil, []blockScale{{0, 0.005}, {2, 0.035}}, false},
	TypeQ5K:  {"Q5_K", 256, 176, dequantQ5K, nil, []blockScale{{0, 0.0025}, {2, 0.035}}, false},
	TypeQ6K:  {"Q6_K", 256, 210, dequantQ6K, nil, []blockScale{{208, 0.0007}}, false},

	TypeIQ4NL: {"IQ4_NL", 32, 18, dequantIQ4NL, nil, []blockScale{{0, 0.015}}, false},
	TypeIQ4XS: {"IQ4_XS", 256, 136, dequantIQ4XS, nil, []blockScale{{0, 0.0008}}, false},
	TypeMXFP4: {"MXFP4", 32, 17, dequantMXFP4, nil, []blockScale{{0, 0.17}}, true},

	9: {name: "Q8_1"}, 15: {name: "Q8_K"},
	16: {name: "IQ2_XXS"}, 17: {name: "IQ2_XS"}, 18: {name: "IQ3_XXS"}, 19: {name: "IQ1_S"}, 21: {name: "IQ3_S"}, 22: {name: "IQ2_S"},
	24: {name: "I8"}, 25: {name: "I16"}, 26: {name: "I32"}, 27: {name: "I64"}, 28: {name: "F64"},
	29: {name: "IQ1_M"}, 34: {name: "TQ1_0"}, 35: {name: "TQ2_0"},
}

// Types returns the readable types, ordered by block size. Every backend supports all of them.
func Types() []Type {
	var list []Type
	for i := range types {
		if t := Type(i); t.readable() {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b Type) int { return a.BlockSize() - b.BlockSize() })
	return list
}

// CacheTypes returns the types that a KV cache can have, from the largest to the smallest. Every
// backend supports all of them.
func CacheTypes() []Type { return []Type{TypeF32, TypeF16, TypeQ80, TypeQ40} }

// Names lists types for a message, as in "F32, F16 and Q4_0".
func Names(list []Type) string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.String()
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// String returns GGML's name of the type, as in "Q4_K".
func (t Type) String() string {
	if name := t.info().name; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// info returns the type's element in the table types. If GGML has no type with this number, it
// returns an empty element.
func (t Type) info() *typeInfo {
	if int64(t) < int64(len(types)) {
		return &types[t]
	}
	return &unknown
}

var unknown typeInfo

// readable reports whether Ingot supports the type. Dequantise panics for other types. All tensors
// of a File have readable types.
func (t Type) readable() bool { return t.info().blockBytes > 0 }

// BlockSize returns the number of weights in a block: 1 for the float types, 0 for a type that is
// not readable.
func (t Type) BlockSize() int { return t.info().blockSize }

// BlockBytes returns the number of bytes of a block; 0 for a type that is not readable.
func (t Type) BlockBytes() int { return t.info().blockBytes }

// Scales returns the offsets of a block's float16 scales; none for types without such scales.
func (t Type) Scales() []int {
	var at []int
	if t.info().exponent {
		return at
	}
	for _, s := range t.info().scales {
		at = append(at, s.at)
	}
	return at
}

// RowBytes returns the number of bytes of a row of n weights. It returns an error if the type is
// not readable or if n weights are not whole blocks.
func (t Type) RowBytes(n int) (int, error) {
	info := t.info()
	if info.blockBytes == 0 {
		return 0, t.unsupported()
	}
	if n < 0 || n%info.blockSize != 0 {
		return 0, fmt.Errorf("a row of %d weights cannot have type %v, whose blocks have %d weights: the length must be a multiple of this number", n, t, info.blockSize)
	}
	blocks := n / info.blockSize
	if blocks > math.MaxInt/info.blockBytes {
		return 0, fmt.Errorf("a row of %d weights of type %v has too many bytes", n, t)
	}
	return blocks * info.blockBytes, nil
}

func (t Type) unsupported() error {
	return fmt.Errorf("%v is not supported (supported: %s)", t, Names(Types()))
}
