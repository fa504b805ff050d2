// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":      31448,
	"bracket":           13100,
	"delta":             25884,
	"f16_product":       29644,
	"f32_product":       28028,
	"from_f16":          8824,
	"from_q4_0":         9716,
	"from_q8_0":         9208,
	"gate":              18044,
	"highest":           22960,
	"iq1_m_product":     73052,
	"iq1_s_product":     70840,
	"iq2_xs_product":    68164,
	"iq2_xxs_product":   65860,
	"iq3_s_product":     63784,
	"iq3_xxs_product":   61692,
	"iq4_nl_product":    55596,
	"iq4_xs_product":    57572,
	"mxfp4_product":     59644,
	"nvfp4_f32_product": 80312,
	"nvfp4_product":     77804,
	"peak":              10364,
	"q2_k_product":      50316,
	"q3_k_product":      52932,
	"q4_0_product":      33340,
	"q4_1_product":      39268,
	"q4_k_product":      43328,
	"q5_0_product":      35292,
	"q5_1_product":      41212,
	"q5_k_product":      45428,
	"q6_k_product":      47708,
	"q8_0_product":      37420,
	"quantise":          13668,
	"rms_norm":          17380,
	"rotate":            24664,
	"scores":            0,
	"scores_f16":        4304,
	"softmax":           21540,
	"to_f16":            9016,
	"to_q4_0":           9968,
	"to_q8_0":           9416,
	"tq2_0_product":     75764,
	"values":            2064,
	"values_f16":        6484,
	"weigh":             10984,
})
