// Package kernels holds the inner loops of the CPU backend: products of packed weights, attention,
// norms and activations.
//
// There are four levels: portable Go, and machine code for AVX-512 VNNI and AVX2 on amd64 and for
// NEON with dot products on arm64. Command generate compiles the machine code from the C sources in
// c. All levels use the same packed weights. Within a level, a result depends on its row alone,
// never on the number of rows in a call.
package kernels

//go:generate go run ./generate .

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Set has the kernels of one level.
type Set struct {
	Name     string // "avx512", "avx2", "neon" or "portable"
	products map[gguf.Type]func(*ProductArgs)

	Quantise func(*QuantiseArgs)
	RMSNorm  func(*NormArgs)
	Gate     func(*GateArgs)
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

// compiled returns the Set of a level of machine code. offsets has the kernels' offsets in the code
// by their names in C.
func compiled(level string, call func(offset uintptr, args unsafe.Pointer), offsets map[string]uintptr) Set {
	c := code{level, call, offsets}
	s := Set{
		Name: level, products: map[gguf.Type]func(*ProductArgs){},
		Quantise: kernel[QuantiseArgs](c, "quantise"), RMSNorm: kernel[NormArgs](c, "rms_norm"), Gate: kernel[GateArgs](c, "gate"),
		Delta:  kernel[DeltaArgs](c, "delta"),
		Scores: kernel[ScoresArgs](c, "scores"), Values: kernel[ValuesArgs](c, "values"), Softmax: kernel[SoftmaxArgs](c, "softmax"),
		Rotate: kernel[RotateArgs](c, "rotate"), Highest: kernel[HighestArgs](c, "highest"),
		Peak: kernel[PeakArgs](c, "peak"), Weigh: kernel[WeighArgs](c, "weigh"), Bracket: kernel[BracketArgs](c, "bracket"),
		List: kernel[ListArgs](c, "list"), Above: kernel[AboveArgs](c, "above"),
		ScoresF16: kernel[ScoresArgs](c, "scores_f16"), ValuesF16: kernel[ValuesArgs](c, "values_f16"),
		FromF16: kernel[ConvertArgs](c, "from_f16"), ToF16: kernel[ConvertArgs](c, "to_f16"),
		FromQ80: kernel[ConvertArgs](c, "from_q8_0"), ToQ80: kernel[ConvertArgs](c, "to_q8_0"),
		FromQ40: kernel[ConvertArgs](c, "from_q4_0"), ToQ40: kernel[ConvertArgs](c, "to_q4_0"),
	}
	for t := range layouts {
		name := t
		if same, ok := packedAs[t]; ok {
			name = same
		}
		s.products[t] = kernel[ProductArgs](c, strings.ToLower(name.String())+"_product")
	}
	return s
}

type code struct {
	level   string
	call    func(offset uintptr, args unsafe.Pointer)
	offsets map[string]uintptr
}

// kernel returns the kernel with a name in C, whose arguments have type A.
func kernel[A any](c code, name string) func(*A) {
	offset, ok := c.offsets[name]
	if !ok {
		panic(fmt.Sprintf("kernels: level %s has no kernel %s: run make generate", c.level, name))
	}
	return func(a *A) { c.call(offset, unsafe.Pointer(a)) }
}

// Product returns the product kernel of a weight type. Every type of gguf.Types has one.
func (s *Set) Product(t gguf.Type) func(*ProductArgs) {
	p := s.products[t]
	if p == nil {
		panic(fmt.Sprintf("kernels: level %s has no product for weights of type %v", s.Name, t))
	}
	return p
}

// FloatWeights reports whether a type's products take activations of float32 instead of bytes.
func FloatWeights(t gguf.Type) bool { return t.BlockSize() == 1 }

// Sets returns the levels that this processor supports. The fastest is first, the portable one
// last.
func Sets() []*Set { return append(machineSets(), &portable) }
