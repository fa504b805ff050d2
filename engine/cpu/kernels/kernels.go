// Package kernels holds the inner loops of the CPU backend: products of packed weights, attention,
// norms and activations.
//
// There are five levels: portable Go, and machine code for AVX-512 VNNI, with or without AMX, and
// AVX2 on amd64 and for NEON with dot products on arm64. Command generate compiles the machine
// code from the C sources in c. All levels use the same packed weights. Within a level, a result
// depends on its row alone, never on the number of rows in a call.
package kernels

//go:generate go run ./generate .

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
)

// Set has the kernels of one level.
type Set struct {
	Name       string // "amx", "avx512", "avx2", "neon" or "portable"
	high, fast Products
	code       code // empty for the portable level

	RMSNorm  func(*NormArgs)
	Gate     func(*GateArgs)
	SoftCap  func(*SoftCapArgs)
	Convolve func(*ConvolveArgs)
	Delta    func(*DeltaArgs)
	Scores   func(*ScoresArgs)
	Values   func(*ValuesArgs)
	Softmax  func(*SoftmaxArgs)
	Rotate   func(*RotateArgs)
	Highest  func(*HighestArgs)
	Peak     func(*PeakArgs)
	Weigh    func(*WeighArgs)
	List     func(*ListArgs)
	Bracket  func(*BracketArgs)
	Above    func(*AboveArgs)

	// Scores and Values for keys and values of float16.
	ScoresF16 func(*ScoresArgs)
	ValuesF16 func(*ValuesArgs)

	FromF16, ToF16 func(*ConvertArgs)
	FromQ80, ToQ80 func(*ConvertArgs)
	FromQ40, ToQ40 func(*ConvertArgs)
}

// Products has the kernels of one precision of activations. Both precisions use the same packed
// weights.
type Products struct {
	Quantise   func(*QuantiseArgs)
	BlockBytes int // size of the blocks that Quantise writes
	level      string
	byType     map[gguf.Type]func(*ProductArgs)

	// QuantiseWords and words are the same in both precisions.
	QuantiseWords func(*QuantiseArgs) // writes WordBlocks
	words         func(*ProductArgs)

	// Products of tiles, for many rows. They give the same bits as the other products. Most levels
	// have none.
	QuantiseTiles func(*QuantiseArgs) // writes a row of tiles
	TileBytes     int                 // size of a tile, or 0 if the level has no products of tiles
	MinTileRows   int                 // number of rows from which on products of tiles are faster
	tiles         map[gguf.Type]func(*ProductArgs)
}

// Products returns the kernels of a precision.
func (s *Set) Products(p compute.Precision) *Products {
	if p == compute.Fast {
		return &s.fast
	}
	return &s.high
}

// compiled returns the Set of a level of machine code. offsets has the kernels' offsets in the code
// by their names in C.
func compiled(level string, call func(offset uintptr, args unsafe.Pointer), offsets map[string]uintptr) Set {
	c := code{level, call, offsets}
	return Set{
		Name: level, code: c, high: c.products("", int(unsafe.Sizeof(Block{}))), fast: c.products("8", int(unsafe.Sizeof(Block8{}))),
		RMSNorm: kernel[NormArgs](c, "rms_norm"), Gate: kernel[GateArgs](c, "gate"), SoftCap: kernel[SoftCapArgs](c, "soft_cap"),
		Delta: kernel[DeltaArgs](c, "delta"), Convolve: kernel[ConvolveArgs](c, "convolve"),
		Scores: kernel[ScoresArgs](c, "scores"), Values: kernel[ValuesArgs](c, "values"), Softmax: kernel[SoftmaxArgs](c, "softmax"),
		Rotate: kernel[RotateArgs](c, "rotate"), Highest: kernel[HighestArgs](c, "highest"),
		Peak: kernel[PeakArgs](c, "peak"), Weigh: kernel[WeighArgs](c, "weigh"), Bracket: kernel[BracketArgs](c, "bracket"),
		List: kernel[ListArgs](c, "list"), Above: kernel[AboveArgs](c, "above"),
		ScoresF16: kernel[ScoresArgs](c, "scores_f16"), ValuesF16: kernel[ValuesArgs](c, "values_f16"),
		FromF16: kernel[ConvertArgs](c, "from_f16"), ToF16: kernel[ConvertArgs](c, "to_f16"),
		FromQ80: kernel[ConvertArgs](c, "from_q8_0"), ToQ80: kernel[ConvertArgs](c, "to_q8_0"),
		FromQ40: kernel[ConvertArgs](c, "from_q4_0"), ToQ40: kernel[ConvertArgs](c, "to_q4_0"),
	}
}

// kernelName returns the name of a type in the names of kernels in C.
func kernelName(t gguf.Type) string {
	if same, ok := packedAs[t]; ok {
		t = same
	}
	return strings.ToLower(t.String())
}

type code struct {
	level   string
	call    func(offset uintptr, args unsafe.Pointer)
	offsets map[string]uintptr
}

// products returns the kernels of a precision, whose names in C end with suffix.
func (c code) products(suffix string, blockBytes int) Products {
	p := Products{
		Quantise: kernel[QuantiseArgs](c, "quantise"+suffix), BlockBytes: blockBytes,
		level: c.level, byType: map[gguf.Type]func(*ProductArgs){},
		QuantiseWords: kernel[QuantiseArgs](c, "quantise_words"), words: kernel[ProductArgs](c, "word_product"),
	}
	for t := range layouts {
		suffix := suffix
		if t.BlockSize() == 1 {
			suffix = ""
		}
		p.byType[t] = kernel[ProductArgs](c, kernelName(t)+"_product"+suffix)
	}
	return p
}

// kernel returns the kernel with a name in C, whose arguments have type A.
func kernel[A any](c code, name string) func(*A) {
	offset, ok := c.offsets[name]
	if !ok {
		panic(fmt.Sprintf("kernels: level %s has no kernel %s: run make generate", c.level, name))
	}
	return func(a *A) { c.call(offset, unsafe.Pointer(a)) }
}

// Product returns the product kernel for rows of n weights of a type. Every type of gguf.Types has
// one.
func (p *Products) Product(t gguf.Type, n int) func(*ProductArgs) {
	if FormOf(t, n) == Words {
		return p.words
	}
	f := p.byType[t]
	if f == nil {
		panic(fmt.Sprintf("kernels: level %s has no product for weights of type %v", p.level, t))
	}
	return f
}

// TileProduct returns the product of tiles for weights of a type, or nil. Products of F16, BF16 and
// F32 have none.
func (p *Products) TileProduct(t gguf.Type) func(*ProductArgs) { return p.tiles[t] }

// Form is a form of activations. It is a bit, so a Form can also be a set of forms.
type Form uint8

// The forms of activations.
const (
	Floats Form = 1 << iota // float32
	Blocks                  // the blocks that Products.Quantise writes
	Words                   // the blocks that Products.QuantiseWords writes
)

// FormOf returns the form of activations that products with rows of n weights of a type take.
func FormOf(t gguf.Type, n int) Form {
	switch {
	case t.BlockSize() > 1:
		return Blocks
	case t != gguf.TypeF32 && n%32 == 0:
		return Words
	}
	return Floats
}

// Sets returns the levels that this processor supports. The fastest is first, the portable one
// last.
func Sets() []*Set { return append(machineSets(), &portable) }
