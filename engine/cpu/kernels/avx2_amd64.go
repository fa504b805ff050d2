// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"above":             19600,
	"bf16_product":      38816,
	"bracket":           15600,
	"delta":             31824,
	"f16_product":       36224,
	"f32_product":       33600,
	"from_f16":          9136,
	"from_q4_0":         10160,
	"from_q8_0":         9488,
	"gate":              24112,
	"highest":           28480,
	"iq1_m_product":     144480,
	"iq1_s_product":     138960,
	"iq2_xs_product":    131616,
	"iq2_xxs_product":   125696,
	"iq3_s_product":     120384,
	"iq3_xxs_product":   115072,
	"iq4_nl_product":    99152,
	"iq4_xs_product":    104336,
	"list":              15184,
	"mxfp4_product":     109648,
	"nvfp4_f32_product": 163648,
	"nvfp4_product":     156752,
	"peak":              11104,
	"q2_k_product":      85104,
	"q3_k_product":      92032,
	"q4_0_product":      41648,
	"q4_1_product":      56224,
	"q4_k_product":      66816,
	"q5_0_product":      46208,
	"q5_1_product":      61184,
	"q5_k_product":      72032,
	"q6_k_product":      77952,
	"q8_0_product":      51408,
	"quantise":          20368,
	"rms_norm":          23184,
	"rotate":            30112,
	"scores":            0,
	"scores_f16":        4480,
	"softmax":           26768,
	"to_f16":            9312,
	"to_q4_0":           10368,
	"to_q8_0":           9632,
	"tq2_0_product":     151696,
	"values":            1824,
	"values_f16":        6400,
	"weigh":             11888,
})
