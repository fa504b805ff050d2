// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "github.com/ingot-run/ingot/engine/gguf"

//go:noescape
func neonBf16Product(a *ProductArgs)

//go:noescape
func neonF16Product(a *ProductArgs)

//go:noescape
func neonF32Product(a *ProductArgs)

//go:noescape
func neonFromF16(a *ConvertArgs)

//go:noescape
func neonFromQ40(a *ConvertArgs)

//go:noescape
func neonFromQ80(a *ConvertArgs)

//go:noescape
func neonGate(a *GateArgs)

//go:noescape
func neonHighest(a *HighestArgs)

//go:noescape
func neonIq4NlProduct(a *ProductArgs)

//go:noescape
func neonIq4XsProduct(a *ProductArgs)

//go:noescape
func neonMxfp4Product(a *ProductArgs)

//go:noescape
func neonQ2KProduct(a *ProductArgs)

//go:noescape
func neonQ3KProduct(a *ProductArgs)

//go:noescape
func neonQ40Product(a *ProductArgs)

//go:noescape
func neonQ41Product(a *ProductArgs)

//go:noescape
func neonQ4KProduct(a *ProductArgs)

//go:noescape
func neonQ50Product(a *ProductArgs)

//go:noescape
func neonQ51Product(a *ProductArgs)

//go:noescape
func neonQ5KProduct(a *ProductArgs)

//go:noescape
func neonQ6KProduct(a *ProductArgs)

//go:noescape
func neonQ80Product(a *ProductArgs)

//go:noescape
func neonQuantize(a *QuantizeArgs)

//go:noescape
func neonRMSNorm(a *NormArgs)

//go:noescape
func neonRotate(a *RotateArgs)

//go:noescape
func neonScores(a *ScoresArgs)

//go:noescape
func neonScoresF16(a *ScoresArgs)

//go:noescape
func neonSoftmax(a *SoftmaxArgs)

//go:noescape
func neonToF16(a *ConvertArgs)

//go:noescape
func neonToQ40(a *ConvertArgs)

//go:noescape
func neonToQ80(a *ConvertArgs)

//go:noescape
func neonValues(a *ValuesArgs)

//go:noescape
func neonValuesF16(a *ValuesArgs)

// neon has the kernels for NEON with dot products.
var neon = Set{
	Name: "neon",
	products: map[gguf.Type]func(*ProductArgs){
		gguf.TypeBF16:  neonBf16Product,
		gguf.TypeF16:   neonF16Product,
		gguf.TypeF32:   neonF32Product,
		gguf.TypeIQ4NL: neonIq4NlProduct,
		gguf.TypeIQ4XS: neonIq4XsProduct,
		gguf.TypeMXFP4: neonMxfp4Product,
		gguf.TypeQ2K:   neonQ2KProduct,
		gguf.TypeQ3K:   neonQ3KProduct,
		gguf.TypeQ40:   neonQ40Product,
		gguf.TypeQ41:   neonQ41Product,
		gguf.TypeQ4K:   neonQ4KProduct,
		gguf.TypeQ50:   neonQ50Product,
		gguf.TypeQ51:   neonQ51Product,
		gguf.TypeQ5K:   neonQ5KProduct,
		gguf.TypeQ6K:   neonQ6KProduct,
		gguf.TypeQ80:   neonQ80Product,
	},
	FromF16:   neonFromF16,
	FromQ40:   neonFromQ40,
	FromQ80:   neonFromQ80,
	Gate:      neonGate,
	Highest:   neonHighest,
	Quantize:  neonQuantize,
	RMSNorm:   neonRMSNorm,
	Rotate:    neonRotate,
	Scores:    neonScores,
	ScoresF16: neonScoresF16,
	Softmax:   neonSoftmax,
	ToF16:     neonToF16,
	ToQ40:     neonToQ40,
	ToQ80:     neonToQ80,
	Values:    neonValues,
	ValuesF16: neonValuesF16,
}
