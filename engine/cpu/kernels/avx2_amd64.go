// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":      32672,
	"bracket":           13696,
	"delta":             25680,
	"f16_product":       30080,
	"f32_product":       27456,
	"from_f16":          9136,
	"from_q4_0":         10160,
	"from_q8_0":         9488,
	"gate":              17936,
	"highest":           22304,
	"iq1_m_product":     138336,
	"iq1_s_product":     132816,
	"iq2_xs_product":    125472,
	"iq2_xxs_product":   119552,
	"iq3_s_product":     114240,
	"iq3_xxs_product":   108928,
	"iq4_nl_product":    93008,
	"iq4_xs_product":    98192,
	"mxfp4_product":     103504,
	"nvfp4_f32_product": 157504,
	"nvfp4_product":     150608,
	"peak":              11104,
	"q2_k_product":      78960,
	"q3_k_product":      85888,
	"q4_0_product":      35504,
	"q4_1_product":      50080,
	"q4_k_product":      60672,
	"q5_0_product":      40064,
	"q5_1_product":      55040,
	"q5_k_product":      65888,
	"q6_k_product":      71808,
	"q8_0_product":      45264,
	"quantise":          14192,
	"rms_norm":          17008,
	"rotate":            23968,
	"scores":            0,
	"scores_f16":        4480,
	"softmax":           20592,
	"to_f16":            9312,
	"to_q4_0":           10368,
	"to_q8_0":           9632,
	"tq2_0_product":     145552,
	"values":            1824,
	"values_f16":        6400,
	"weigh":             11936,
})
