// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"bf16_product":   43104,
	"f16_product":    35488,
	"f32_product":    27584,
	"from_f16":       14320,
	"from_q4_0":      15376,
	"from_q8_0":      14656,
	"gate":           19328,
	"highest":        23552,
	"iq4_nl_product": 195760,
	"iq4_xs_product": 208320,
	"mxfp4_product":  221712,
	"q2_k_product":   161120,
	"q3_k_product":   178656,
	"q4_0_product":   51136,
	"q4_1_product":   88560,
	"q4_k_product":   115440,
	"q5_0_product":   63264,
	"q5_1_product":   101440,
	"q5_k_product":   129584,
	"q6_k_product":   144800,
	"q8_0_product":   76496,
	"quantise":       16608,
	"rms_norm":       18400,
	"rotate":         25360,
	"scores":         0,
	"scores_f16":     7008,
	"softmax":        21664,
	"to_f16":         14480,
	"to_q4_0":        15552,
	"to_q8_0":        14768,
	"values":         4192,
	"values_f16":     11472,
})
