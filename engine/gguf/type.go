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
	TypeF32    Type = 0
	TypeF16    Type = 1
	TypeQ40    Type = 2
	TypeQ41    Type = 3
	TypeQ50    Type = 6
	TypeQ51    Type = 7
	TypeQ80    Type = 8
	TypeQ2K    Type = 10
	TypeQ3K    Type = 11
	TypeQ4K    Type = 12
	TypeQ5K    Type = 13
	TypeQ6K    Type = 14
	TypeIQ2XXS Type = 16
	TypeIQ2XS  Type = 17
	TypeIQ3XXS Type = 18
	TypeIQ1S   Type = 19
	TypeIQ4NL  Type = 20
	TypeIQ3S   Type = 21
	TypeIQ2S   Type = 22
	TypeIQ4XS  Type = 23
	TypeIQ1M   Type = 29
	TypeBF16   Type = 30
	TypeTQ10   Type = 34
	TypeTQ20   Type = 35
	TypeMXFP4  Type = 39
	TypeNVFP4  Type = 40
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
	form     scaleForm
}

// scaleForm is the form in which a block's scales are stored.
type scaleForm int

const (
	halfScales      scaleForm = iota // float16
	exponentScales                   // a power of two, stored in one byte as its exponent
	floatByteScales                  // floats of one byte, with four bits of exponent and three of mantissa
	dividedScales                    // a float16 whose bits are in the highest four bits of four words of 16 bits
)

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
	TypeQ40:  {"Q4_0", 32, 18, dequantQ4_0, quantQ4_0, []blockScale{{0, 0.2}}, halfScales},
	TypeQ41:  {"Q4_1", 32, 20, dequantQ4_1, nil, []blockScale{{0, 0.2}, {2, -1.5}}, halfScales},
	TypeQ50:  {"Q5_0", 32, 22, dequantQ5_0, nil, []blockScale{{0, 0.1}}, halfScales},
	TypeQ51:  {"Q5_1", 32, 24, dequantQ5_1, nil, []blockScale{{0, 0.1}, {2, -1.5}}, halfScales},
	TypeQ80:  {"Q8_0", 32, 34, dequantQ8_0, quantQ8_0, []blockScale{{0, 0.0135}}, halfScales},
	TypeQ2K:  {"Q2_K", 256, 84, dequantQ2K, nil, []blockScale{{80, 0.08}, {82, 0.12}}, halfScales},
	TypeQ3K:  {"Q3_K", 256, 110, dequantQ3K, nil, []blockScale{{108, 0.023}}, halfScales},
	TypeQ4K:  {"Q4_K", 256, 144, dequantQ4K, nil, []blockScale{{0, 0.005}, {2, 0.035}}, halfScales},
	TypeQ5K:  {"Q5_K", 256, 176, dequantQ5K, nil, []blockScale{{0, 0.0025}, {2, 0.035}}, halfScales},
	TypeQ6K:  {"Q6_K", 256, 210, dequantQ6K, nil, []blockScale{{208, 0.0007}}, halfScales},

	TypeIQ4NL: {"IQ4_NL", 32, 18, dequantIQ4NL, nil, []blockScale{{0, 0.015}}, halfScales},
	TypeIQ4XS: {"IQ4_XS", 256, 136, dequantIQ4XS, nil, []blockScale{{0, 0.0008}}, halfScales},
	TypeMXFP4: {"MXFP4", 32, 17, dequantMXFP4, nil, []blockScale{{0, 0.17}}, exponentScales},
	TypeNVFP4: {"NVFP4", 64, 36, dequantNVFP4, nil, []blockScale{{0, 0.17}, {1, 0.17}, {2, 0.17}, {3, 0.17}}, floatByteScales},

	TypeIQ1S:   {"IQ1_S", 256, 50, dequantCodesOf(TypeIQ1S), nil, []blockScale{{0, 0.13}}, halfScales},
	TypeIQ1M:   {"IQ1_M", 256, 56, dequantCodesOf(TypeIQ1M), nil, []blockScale{{48, 0.13}}, dividedScales},
	TypeIQ2XXS: {"IQ2_XXS", 256, 66, dequantCodesOf(TypeIQ2XXS), nil, []blockScale{{0, 0.0175}}, halfScales},
	TypeIQ2XS:  {"IQ2_XS", 256, 74, dequantCodesOf(TypeIQ2XS), nil, []blockScale{{0, 0.0175}}, halfScales},
	TypeIQ2S:   {"IQ2_S", 256, 82, dequantCodesOf(TypeIQ2S), nil, []blockScale{{0, 0.0175}}, halfScales},
	TypeIQ3XXS: {"IQ3_XXS", 256, 98, dequantCodesOf(TypeIQ3XXS), nil, []blockScale{{0, 0.0068}}, halfScales},
	TypeIQ3S:   {"IQ3_S", 256, 110, dequantCodesOf(TypeIQ3S), nil, []blockScale{{0, 0.0068}}, halfScales},
	TypeTQ10:   {"TQ1_0", 256, 54, dequantCodesOf(TypeTQ10), nil, []blockScale{{52, 1.1}}, halfScales},
	TypeTQ20:   {"TQ2_0", 256, 66, dequantCodesOf(TypeTQ20), nil, []blockScale{{64, 0.8}}, halfScales},

	TypeNVFP4F32: {"NVFP4_F32", 64, 40, dequantNVFP4F32, nil, []blockScale{{4, 0.17}, {5, 0.17}, {6, 0.17}, {7, 0.17}}, floatByteScales},

	9: {name: "Q8_1"}, 15: {name: "Q8_K"},
	24: {name: "I8"}, 25: {name: "I16"}, 26: {name: "I32"}, 27: {name: "I64"}, 28: {name: "F64"},
}

// Types returns the readable types, ordered by block size. Every backend supports all of them.
// Files have those of FileTypes.
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
	if t.info().form != halfScales {
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
	return fmt.Errorf("%v is not supported (supported: %s)", t, Names(FileTypes()))
}
