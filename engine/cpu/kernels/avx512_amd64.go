// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"bf16_product":      48000,
	"bracket":           18832,
	"delta":             31168,
	"f16_product":       40384,
	"f32_product":       32480,
	"from_f16":          14320,
	"from_q4_0":         15376,
	"from_q8_0":         14656,
	"gate":              22768,
	"highest":           27168,
	"iq1_m_product":     146256,
	"iq1_s_product":     141424,
	"iq2_xs_product":    135584,
	"iq2_xxs_product":   130528,
	"iq3_s_product":     125744,
	"iq3_xxs_product":   120944,
	"iq4_nl_product":    106720,
	"iq4_xs_product":    111376,
	"mxfp4_product":     116160,
	"nvfp4_f32_product": 162192,
	"nvfp4_product":     156592,
	"peak":              16608,
	"q2_k_product":      95088,
	"q3_k_product":      101008,
	"q4_0_product":      56032,
	"q4_1_product":      69600,
	"q4_k_product":      79344,
	"q5_0_product":      60416,
	"q5_1_product":      74320,
	"q5_k_product":      84240,
	"q6_k_product":      89440,
	"q8_0_product":      65104,
	"quantise":          19856,
	"rms_norm":          21840,
	"rotate":            28944,
	"scores":            0,
	"scores_f16":        7008,
	"softmax":           25280,
	"to_f16":            14480,
	"to_q4_0":           15552,
	"to_q8_0":           14768,
	"tq2_0_product":     151952,
	"values":            4192,
	"values_f16":        11472,
	"weigh":             17600,
})
