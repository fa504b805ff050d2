// Package kernels holds the inner loops of the CPU backend: products of packed weights, attention, norms and activations.
//
// There are four levels: portable Go, and machine code for AVX-512 VNNI and AVX2 on amd64 and for NEON with dot products on arm64.
// Command generate compiles the machine code from the C sources in c. All levels use the same packed weights. Within a level, a
// result depends on its row alone, never on the number of rows in a call.
package kernels

//go:generate go run ./generate .

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Set has the kernels of one level.
type Set struct {
	Name     string // "avx512", "avx2", "neon" or "portable"
	products map[gguf.Type]func(*ProductArgs)

	Quantize func(*QuantizeArgs)
	RMSNorm  func(*NormArgs)
	Gate     func(*GateArgs)
	Scores   func(*ScoresArgs)
	Values   func(*ValuesArgs)
	Softmax  func(*SoftmaxArgs)
	Rotate   func(*RotateArgs)
	Highest  func(*HighestArgs)

	// Scores and Values for keys and values of float16.
	ScoresF16 func(*ScoresArgs)
	ValuesF16 func(*ValuesArgs)

	FromF16, ToF16 func(*ConvertArgs)
	FromQ80, ToQ80 func(*ConvertArgs)
	FromQ40, ToQ40 func(*ConvertArgs)
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

// Sets returns the levels that this processor supports. The fastest is first, the portable one last.
func Sets() []*Set { return append(machineSets(), &portable) }
