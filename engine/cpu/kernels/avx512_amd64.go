// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"above":             21664,
	"bf16_product":      50416,
	"bracket":           19648,
	"delta":             33584,
	"f16_product":       42800,
	"f32_product":       34896,
	"from_f16":          14320,
	"from_q4_0":         15376,
	"from_q8_0":         14656,
	"gate":              25184,
	"highest":           29584,
	"iq1_m_product":     148672,
	"iq1_s_product":     143840,
	"iq2_xs_product":    138000,
	"iq2_xxs_product":   132944,
	"iq3_s_product":     128160,
	"iq3_xxs_product":   123360,
	"iq4_nl_product":    109136,
	"iq4_xs_product":    113792,
	"list":              19392,
	"mxfp4_product":     118576,
	"nvfp4_f32_product": 164608,
	"nvfp4_product":     159008,
	"peak":              16608,
	"q2_k_product":      97504,
	"q3_k_product":      103424,
	"q4_0_product":      58448,
	"q4_1_product":      72016,
	"q4_k_product":      81760,
	"q5_0_product":      62832,
	"q5_1_product":      76736,
	"q5_k_product":      86656,
	"q6_k_product":      91856,
	"q8_0_product":      67520,
	"quantise":          22272,
	"rms_norm":          24256,
	"rotate":            31360,
	"scores":            0,
	"scores_f16":        7008,
	"softmax":           27696,
	"to_f16":            14480,
	"to_q4_0":           15552,
	"to_q8_0":           14768,
	"tq2_0_product":     154368,
	"values":            4192,
	"values_f16":        11472,
	"weigh":             17600,
})
