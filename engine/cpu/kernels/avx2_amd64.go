// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "github.com/ingot-run/ingot/engine/gguf"

//go:noescape
func avx2Bf16Product(a *ProductArgs)

//go:noescape
func avx2F16Product(a *ProductArgs)

//go:noescape
func avx2F32Product(a *ProductArgs)

//go:noescape
func avx2FromF16(a *ConvertArgs)

//go:noescape
func avx2FromQ40(a *ConvertArgs)

//go:noescape
func avx2FromQ80(a *ConvertArgs)

//go:noescape
func avx2Gate(a *GateArgs)

//go:noescape
func avx2Highest(a *HighestArgs)

//go:noescape
func avx2Iq4NlProduct(a *ProductArgs)

//go:noescape
func avx2Iq4XsProduct(a *ProductArgs)

//go:noescape
func avx2Mxfp4Product(a *ProductArgs)

//go:noescape
func avx2Q2KProduct(a *ProductArgs)

//go:noescape
func avx2Q3KProduct(a *ProductArgs)

//go:noescape
func avx2Q40Product(a *ProductArgs)

//go:noescape
func avx2Q41Product(a *ProductArgs)

//go:noescape
func avx2Q4KProduct(a *ProductArgs)

//go:noescape
func avx2Q50Product(a *ProductArgs)

//go:noescape
func avx2Q51Product(a *ProductArgs)

//go:noescape
func avx2Q5KProduct(a *ProductArgs)

//go:noescape
func avx2Q6KProduct(a *ProductArgs)

//go:noescape
func avx2Q80Product(a *ProductArgs)

//go:noescape
func avx2Quantize(a *QuantizeArgs)

//go:noescape
func avx2RMSNorm(a *NormArgs)

//go:noescape
func avx2Rotate(a *RotateArgs)

//go:noescape
func avx2Scores(a *ScoresArgs)

//go:noescape
func avx2ScoresF16(a *ScoresArgs)

//go:noescape
func avx2Softmax(a *SoftmaxArgs)

//go:noescape
func avx2ToF16(a *ConvertArgs)

//go:noescape
func avx2ToQ40(a *ConvertArgs)

//go:noescape
func avx2ToQ80(a *ConvertArgs)

//go:noescape
func avx2Values(a *ValuesArgs)

//go:noescape
func avx2ValuesF16(a *ValuesArgs)

// avx2 has the kernels for AVX2.
var avx2 = Set{
	Name: "avx2",
	products: map[gguf.Type]func(*ProductArgs){
		gguf.TypeBF16:  avx2Bf16Product,
		gguf.TypeF16:   avx2F16Product,
		gguf.TypeF32:   avx2F32Product,
		gguf.TypeIQ4NL: avx2Iq4NlProduct,
		gguf.TypeIQ4XS: avx2Iq4XsProduct,
		gguf.TypeMXFP4: avx2Mxfp4Product,
		gguf.TypeQ2K:   avx2Q2KProduct,
		gguf.TypeQ3K:   avx2Q3KProduct,
		gguf.TypeQ40:   avx2Q40Product,
		gguf.TypeQ41:   avx2Q41Product,
		gguf.TypeQ4K:   avx2Q4KProduct,
		gguf.TypeQ50:   avx2Q50Product,
		gguf.TypeQ51:   avx2Q51Product,
		gguf.TypeQ5K:   avx2Q5KProduct,
		gguf.TypeQ6K:   avx2Q6KProduct,
		gguf.TypeQ80:   avx2Q80Product,
	},
	FromF16:   avx2FromF16,
	FromQ40:   avx2FromQ40,
	FromQ80:   avx2FromQ80,
	Gate:      avx2Gate,
	Highest:   avx2Highest,
	Quantize:  avx2Quantize,
	RMSNorm:   avx2RMSNorm,
	Rotate:    avx2Rotate,
	Scores:    avx2Scores,
	ScoresF16: avx2ScoresF16,
	Softmax:   avx2Softmax,
	ToF16:     avx2ToF16,
	ToQ40:     avx2ToQ40,
	ToQ80:     avx2ToQ80,
	Values:    avx2Values,
	ValuesF16: avx2ValuesF16,
}
