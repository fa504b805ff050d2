// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":   30736,
	"bracket":        13696,
	"f16_product":    28144,
	"f32_product":    25520,
	"from_f16":       9136,
	"from_q4_0":      10160,
	"from_q8_0":      9488,
	"gate":           17936,
	"highest":        22144,
	"iq4_nl_product": 91072,
	"iq4_xs_product": 96256,
	"mxfp4_product":  101568,
	"peak":           11104,
	"q2_k_product":   77024,
	"q3_k_product":   83952,
	"q4_0_product":   33568,
	"q4_1_product":   48144,
	"q4_k_product":   58736,
	"q5_0_product":   38128,
	"q5_1_product":   53104,
	"q5_k_product":   63952,
	"q6_k_product":   69872,
	"q8_0_product":   43328,
	"quantise":       14192,
	"rms_norm":       17008,
	"rotate":         23808,
	"scores":         0,
	"scores_f16":     4480,
	"softmax":        20432,
	"to_f16":         9312,
	"to_q4_0":        10368,
	"to_q8_0":        9632,
	"values":         1824,
	"values_f16":     6400,
	"weigh":          11936,
})
