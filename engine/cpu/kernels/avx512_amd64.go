// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"bf16_product":      48080,
	"bracket":           18880,
	"delta":             31248,
	"f16_product":       40464,
	"f32_product":       32560,
	"from_f16":          14320,
	"from_q4_0":         15376,
	"from_q8_0":         14656,
	"gate":              22816,
	"highest":           27216,
	"iq1_m_product":     146336,
	"iq1_s_product":     141504,
	"iq2_xs_product":    135664,
	"iq2_xxs_product":   130608,
	"iq3_s_product":     125824,
	"iq3_xxs_product":   121024,
	"iq4_nl_product":    106800,
	"iq4_xs_product":    111456,
	"mxfp4_product":     116240,
	"nvfp4_f32_product": 162272,
	"nvfp4_product":     156672,
	"peak":              16608,
	"q2_k_product":      95168,
	"q3_k_product":      101088,
	"q4_0_product":      56112,
	"q4_1_product":      69680,
	"q4_k_product":      79424,
	"q5_0_product":      60496,
	"q5_1_product":      74400,
	"q5_k_product":      84320,
	"q6_k_product":      89520,
	"q8_0_product":      65184,
	"quantise":          19904,
	"rms_norm":          21888,
	"rotate":            29024,
	"scores":            0,
	"scores_f16":        7008,
	"softmax":           25328,
	"to_f16":            14480,
	"to_q4_0":           15552,
	"to_q8_0":           14768,
	"tq2_0_product":     152032,
	"values":            4192,
	"values_f16":        11472,
	"weigh":             17648,
})
