// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":      32592,
	"bracket":           13648,
	"delta":             25600,
	"f16_product":       30000,
	"f32_product":       27376,
	"from_f16":          9136,
	"from_q4_0":         10160,
	"from_q8_0":         9488,
	"gate":              17888,
	"highest":           22256,
	"iq1_m_product":     138256,
	"iq1_s_product":     132736,
	"iq2_xs_product":    125392,
	"iq2_xxs_product":   119472,
	"iq3_s_product":     114160,
	"iq3_xxs_product":   108848,
	"iq4_nl_product":    92928,
	"iq4_xs_product":    98112,
	"mxfp4_product":     103424,
	"nvfp4_f32_product": 157424,
	"nvfp4_product":     150528,
	"peak":              11104,
	"q2_k_product":      78880,
	"q3_k_product":      85808,
	"q4_0_product":      35424,
	"q4_1_product":      50000,
	"q4_k_product":      60592,
	"q5_0_product":      39984,
	"q5_1_product":      54960,
	"q5_k_product":      65808,
	"q6_k_product":      71728,
	"q8_0_product":      45184,
	"quantise":          14144,
	"rms_norm":          16960,
	"rotate":            23888,
	"scores":            0,
	"scores_f16":        4480,
	"softmax":           20544,
	"to_f16":            9312,
	"to_q4_0":           10368,
	"to_q8_0":           9632,
	"tq2_0_product":     145472,
	"values":            1824,
	"values_f16":        6400,
	"weigh":             11888,
})
