// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"above":             18940,
	"bf16_product":      37244,
	"bracket":           15100,
	"delta":             31680,
	"f16_product":       35440,
	"f32_product":       33824,
	"from_f16":          8824,
	"from_q4_0":         9716,
	"from_q8_0":         9208,
	"gate":              23812,
	"highest":           28728,
	"iq1_m_product":     78848,
	"iq1_s_product":     76636,
	"iq2_xs_product":    73960,
	"iq2_xxs_product":   71656,
	"iq3_s_product":     69580,
	"iq3_xxs_product":   67488,
	"iq4_nl_product":    61392,
	"iq4_xs_product":    63368,
	"list":              14760,
	"mxfp4_product":     65440,
	"nvfp4_f32_product": 86108,
	"nvfp4_product":     83600,
	"peak":              10364,
	"q2_k_product":      56112,
	"q3_k_product":      58728,
	"q4_0_product":      39136,
	"q4_1_product":      45064,
	"q4_k_product":      49124,
	"q5_0_product":      41088,
	"q5_1_product":      47008,
	"q5_k_product":      51224,
	"q6_k_product":      53504,
	"q8_0_product":      43216,
	"quantise":          19436,
	"rms_norm":          23148,
	"rotate":            30460,
	"scores":            0,
	"scores_f16":        4304,
	"softmax":           27308,
	"to_f16":            9016,
	"to_q4_0":           9968,
	"to_q8_0":           9416,
	"tq2_0_product":     81560,
	"values":            2064,
	"values_f16":        6484,
	"weigh":             11028,
})
