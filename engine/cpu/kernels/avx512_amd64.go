// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"bf16_product":      46768,
	"bracket":           18880,
	"f16_product":       39152,
	"f32_product":       31248,
	"from_f16":          14320,
	"from_q4_0":         15376,
	"from_q8_0":         14656,
	"gate":              22816,
	"highest":           27216,
	"iq1_m_product":     145024,
	"iq1_s_product":     140192,
	"iq2_xs_product":    134352,
	"iq2_xxs_product":   129296,
	"iq3_s_product":     124512,
	"iq3_xxs_product":   119712,
	"iq4_nl_product":    105488,
	"iq4_xs_product":    110144,
	"mxfp4_product":     114928,
	"nvfp4_f32_product": 160960,
	"nvfp4_product":     155360,
	"peak":              16608,
	"q2_k_product":      93856,
	"q3_k_product":      99776,
	"q4_0_product":      54800,
	"q4_1_product":      68368,
	"q4_k_product":      78112,
	"q5_0_product":      59184,
	"q5_1_product":      73088,
	"q5_k_product":      83008,
	"q6_k_product":      88208,
	"q8_0_product":      63872,
	"quantise":          19904,
	"rms_norm":          21888,
	"rotate":            29024,
	"scores":            0,
	"scores_f16":        7008,
	"softmax":           25328,
	"to_f16":            14480,
	"to_q4_0":           15552,
	"to_q8_0":           14768,
	"tq2_0_product":     150720,
	"values":            4192,
	"values_f16":        11472,
	"weigh":             17648,
})
