// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx512Call(offset uintptr, args unsafe.Pointer)

// avx512 has the kernels for AVX-512 VNNI.
var avx512 = compiled("avx512", avx512Call, map[string]uintptr{
	"bf16_product":   43296,
	"f16_product":    35680,
	"f32_product":    27776,
	"from_f16":       14320,
	"from_q4_0":      15376,
	"from_q8_0":      14656,
	"gate":           19520,
	"highest":        23744,
	"iq4_nl_product": 102016,
	"iq4_xs_product": 106672,
	"mxfp4_product":  111456,
	"q2_k_product":   90384,
	"q3_k_product":   96304,
	"q4_0_product":   51328,
	"q4_1_product":   64896,
	"q4_k_product":   74640,
	"q5_0_product":   55712,
	"q5_1_product":   69616,
	"q5_k_product":   79536,
	"q6_k_product":   84736,
	"q8_0_product":   60400,
	"quantise":       16608,
	"rms_norm":       18592,
	"rotate":         25552,
	"scores":         0,
	"scores_f16":     7008,
	"softmax":        21856,
	"to_f16":         14480,
	"to_q4_0":        15552,
	"to_q8_0":        14768,
	"values":         4192,
	"values_f16":     11472,
})
