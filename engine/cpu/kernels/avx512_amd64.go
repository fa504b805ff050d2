// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "github.com/ingot-run/ingot/engine/gguf"

//go:noescape
func avx512Bf16Product(a *ProductArgs)

//go:noescape
func avx512F16Product(a *ProductArgs)

//go:noescape
func avx512F32Product(a *ProductArgs)

//go:noescape
func avx512FromF16(a *ConvertArgs)

//go:noescape
func avx512FromQ40(a *ConvertArgs)

//go:noescape
func avx512FromQ80(a *ConvertArgs)

//go:noescape
func avx512Gate(a *GateArgs)

//go:noescape
func avx512Highest(a *HighestArgs)

//go:noescape
func avx512Iq4NlProduct(a *ProductArgs)

//go:noescape
func avx512Iq4XsProduct(a *ProductArgs)

//go:noescape
func avx512Mxfp4Product(a *ProductArgs)

//go:noescape
func avx512Q2KProduct(a *ProductArgs)

//go:noescape
func avx512Q3KProduct(a *ProductArgs)

//go:noescape
func avx512Q40Product(a *ProductArgs)

//go:noescape
func avx512Q41Product(a *ProductArgs)

//go:noescape
func avx512Q4KProduct(a *ProductArgs)

//go:noescape
func avx512Q50Product(a *ProductArgs)

//go:noescape
func avx512Q51Product(a *ProductArgs)

//go:noescape
func avx512Q5KProduct(a *ProductArgs)

//go:noescape
func avx512Q6KProduct(a *ProductArgs)

//go:noescape
func avx512Q80Product(a *ProductArgs)

//go:noescape
func avx512Quantize(a *QuantizeArgs)

//go:noescape
func avx512RMSNorm(a *NormArgs)

//go:noescape
func avx512Rotate(a *RotateArgs)

//go:noescape
func avx512Scores(a *ScoresArgs)

//go:noescape
func avx512ScoresF16(a *ScoresArgs)

//go:noescape
func avx512Softmax(a *SoftmaxArgs)

//go:noescape
func avx512ToF16(a *ConvertArgs)

//go:noescape
func avx512ToQ40(a *ConvertArgs)

//go:noescape
func avx512ToQ80(a *ConvertArgs)

//go:noescape
func avx512Values(a *ValuesArgs)

//go:noescape
func avx512ValuesF16(a *ValuesArgs)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = Set{
	Name: "avx512",
	products: map[gguf.Type]func(*ProductArgs){
		gguf.TypeBF16:  avx512Bf16Product,
		gguf.TypeF16:   avx512F16Product,
		gguf.TypeF32:   avx512F32Product,
		gguf.TypeIQ4NL: avx512Iq4NlProduct,
		gguf.TypeIQ4XS: avx512Iq4XsProduct,
		gguf.TypeMXFP4: avx512Mxfp4Product,
		gguf.TypeQ2K:   avx512Q2KProduct,
		gguf.TypeQ3K:   avx512Q3KProduct,
		gguf.TypeQ40:   avx512Q40Product,
		gguf.TypeQ41:   avx512Q41Product,
		gguf.TypeQ4K:   avx512Q4KProduct,
		gguf.TypeQ50:   avx512Q50Product,
		gguf.TypeQ51:   avx512Q51Product,
		gguf.TypeQ5K:   avx512Q5KProduct,
		gguf.TypeQ6K:   avx512Q6KProduct,
		gguf.TypeQ80:   avx512Q80Product,
	},
	FromF16:   avx512FromF16,
	FromQ40:   avx512FromQ40,
	FromQ80:   avx512FromQ80,
	Gate:      avx512Gate,
	Highest:   avx512Highest,
	Quantize:  avx512Quantize,
	RMSNorm:   avx512RMSNorm,
	Rotate:    avx512Rotate,
	Scores:    avx512Scores,
	ScoresF16: avx512ScoresF16,
	Softmax:   avx512Softmax,
	ToF16:     avx512ToF16,
	ToQ40:     avx512ToQ40,
	ToQ80:     avx512ToQ80,
	Values:    avx512Values,
	ValuesF16: avx512ValuesF16,
}
