// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":      31520,
	"bracket":           13144,
	"delta":             25956,
	"f16_product":       29716,
	"f32_product":       28100,
	"from_f16":          8824,
	"from_q4_0":         9716,
	"from_q8_0":         9208,
	"gate":              18088,
	"highest":           23004,
	"iq1_m_product":     73124,
	"iq1_s_product":     70912,
	"iq2_xs_product":    68236,
	"iq2_xxs_product":   65932,
	"iq3_s_product":     63856,
	"iq3_xxs_product":   61764,
	"iq4_nl_product":    55668,
	"iq4_xs_product":    57644,
	"mxfp4_product":     59716,
	"nvfp4_f32_product": 80384,
	"nvfp4_product":     77876,
	"peak":              10364,
	"q2_k_product":      50388,
	"q3_k_product":      53004,
	"q4_0_product":      33412,
	"q4_1_product":      39340,
	"q4_k_product":      43400,
	"q5_0_product":      35364,
	"q5_1_product":      41284,
	"q5_k_product":      45500,
	"q6_k_product":      47780,
	"q8_0_product":      37492,
	"quantise":          13712,
	"rms_norm":          17424,
	"rotate":            24736,
	"scores":            0,
	"scores_f16":        4304,
	"softmax":           21584,
	"to_f16":            9016,
	"to_q4_0":           9968,
	"to_q8_0":           9416,
	"tq2_0_product":     75836,
	"values":            2064,
	"values_f16":        6484,
	"weigh":             11028,
})
