// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":   27648,
	"f16_product":    25056,
	"f32_product":    22432,
	"from_f16":       9136,
	"from_q4_0":      10160,
	"from_q8_0":      9488,
	"gate":           14848,
	"highest":        19056,
	"iq4_nl_product": 87984,
	"iq4_xs_product": 93168,
	"mxfp4_product":  98480,
	"q2_k_product":   73936,
	"q3_k_product":   80864,
	"q4_0_product":   30480,
	"q4_1_product":   45056,
	"q4_k_product":   55648,
	"q5_0_product":   35040,
	"q5_1_product":   50016,
	"q5_k_product":   60864,
	"q6_k_product":   66784,
	"q8_0_product":   40240,
	"quantise":       11104,
	"rms_norm":       13920,
	"rotate":         20720,
	"scores":         0,
	"scores_f16":     4480,
	"softmax":        17344,
	"to_f16":         9312,
	"to_q4_0":        10368,
	"to_q8_0":        9632,
	"values":         1824,
	"values_f16":     6400,
})
