// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":   27600,
	"f16_product":    25008,
	"f32_product":    22384,
	"from_f16":       9136,
	"from_q4_0":      10160,
	"from_q8_0":      9488,
	"gate":           14800,
	"highest":        19008,
	"iq4_nl_product": 85024,
	"iq4_xs_product": 91056,
	"mxfp4_product":  97504,
	"q2_k_product":   72640,
	"q3_k_product":   78784,
	"q4_0_product":   30432,
	"q4_1_product":   45840,
	"q4_k_product":   55808,
	"q5_0_product":   34896,
	"q5_1_product":   50464,
	"q5_k_product":   60928,
	"q6_k_product":   66656,
	"q8_0_product":   39984,
	"quantise":       11104,
	"rms_norm":       13872,
	"rotate":         20672,
	"scores":         0,
	"scores_f16":     4480,
	"softmax":        17296,
	"to_f16":         9312,
	"to_q4_0":        10368,
	"to_q8_0":        9632,
	"values":         1824,
	"values_f16":     6400,
})
