package gguf

import (
	"fmt"
	"math"
)

// Type is a tensor's element type, numbered as in the file.
type Type uint32

// The element types that Ingot reads. The numbers are GGML's.
const (
	TypeF32  Type = 0
	TypeF16  Type = 1
	TypeQ40  Type = 2
	TypeQ41  Type = 3
	TypeQ50  Type = 6
	TypeQ51  Type = 7
	TypeQ80  Type = 8
	TypeQ4K  Type = 12
	TypeQ5K  Type = 13
	TypeQ6K  Type = 14
	TypeBF16 Type = 30
)

type typeInfo struct {
	name       string
	blockSize  int // weights a block
	blockBytes int // 0: known by name alone, not readable
}

// types lists every type GGML has given a number to, so that a file Ingot
// cannot read is refused by the name its user knows. An array, since attention
// asks for a type's layout at every page.
var types = [...]typeInfo{
	TypeF32:  {"F32", 1, 4},
	TypeF16:  {"F16", 1, 2},
	TypeBF16: {"BF16", 1, 2},
	TypeQ40:  {"Q4_0", 32, 18},
	TypeQ41:  {"Q4_1", 32, 20},
	TypeQ50:  {"Q5_0", 32, 22},
	TypeQ51:  {"Q5_1", 32, 24},
	TypeQ80:  {"Q8_0", 32, 34},
	TypeQ4K:  {"Q4_K", 256, 144},
	TypeQ5K:  {"Q5_K", 256, 176},
	TypeQ6K:  {"Q6_K", 256, 210},

	9: {name: "Q8_1"}, 10: {name: "Q2_K"}, 11: {name: "Q3_K"}, 15: {name: "Q8_K"},
	16: {name: "IQ2_XXS"}, 17: {name: "IQ2_XS"}, 18: {name: "IQ3_XXS"}, 19: {name: "IQ1_S"},
	20: {name: "IQ4_NL"}, 21: {name: "IQ3_S"}, 22: {name: "IQ2_S"}, 23: {name: "IQ4_XS"},
	24: {name: "I8"}, 25: {name: "I16"}, 26: {name: "I32"}, 27: {name: "I64"}, 28: {name: "F64"},
	29: {name: "IQ1_M"}, 34: {name: "TQ1_0"}, 35: {name: "TQ2_0"}, 39: {name: "MXFP4"},
}

// supported is for error messages.
const supported = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K"

// String gives GGML's name of the type, as in "Q4_K".
func (t Type) String() string {
	if name := t.info().name; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// info is what is known of a type, nothing for a number that GGML has not given.
func (t Type) info() typeInfo {
	if int64(t) < int64(len(types)) {
		return types[t]
	}
	return typeInfo{}
}

// Readable says whether Ingot knows the type's layout; the other methods and
// Dequantize are for readable types alone. Every tensor of a File has one.
func (t Type) Readable() bool { return t.info().blockBytes > 0 }

// BlockSize is the number of weights in a block, 1 for the float types and 0
// for a type that is not readable.
func (t Type) BlockSize() int { return t.info().blockSize }

// BlockBytes is the number of bytes a block takes, 0 for a type that is not
// readable.
func (t Type) BlockBytes() int { return t.info().blockBytes }

// RowBytes is the number of bytes that a row of n weights takes. It fails if
// the type is not readable or n is not a whole number of blocks.
func (t Type) RowBytes(n int) (int, error) {
	info := t.info()
	if info.blockBytes == 0 {
		return 0, fmt.Errorf("%v is not supported (supported: %s)", t, supported)
	}
	if n < 0 || n%info.blockSize != 0 {
		return 0, fmt.Errorf("a row of %d weights is not a whole number of %v blocks of %d", n, t, info.blockSize)
	}
	blocks := n / info.blockSize
	if blocks > math.MaxInt/info.blockBytes {
		return 0, fmt.Errorf("a row of %d weights of %v is too large", n, t)
	}
	return blocks * info.blockBytes, nil
}
