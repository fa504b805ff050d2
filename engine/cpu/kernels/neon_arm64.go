// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":      29304,
	"bracket":           13100,
	"f16_product":       27500,
	"f32_product":       25884,
	"from_f16":          8824,
	"from_q4_0":         9716,
	"from_q8_0":         9208,
	"gate":              18044,
	"highest":           22960,
	"iq1_m_product":     70908,
	"iq1_s_product":     68696,
	"iq2_xs_product":    66020,
	"iq2_xxs_product":   63716,
	"iq3_s_product":     61640,
	"iq3_xxs_product":   59548,
	"iq4_nl_product":    53452,
	"iq4_xs_product":    55428,
	"mxfp4_product":     57500,
	"nvfp4_f32_product": 78168,
	"nvfp4_product":     75660,
	"peak":              10364,
	"q2_k_product":      48172,
	"q3_k_product":      50788,
	"q4_0_product":      31196,
	"q4_1_product":      37124,
	"q4_k_product":      41184,
	"q5_0_product":      33148,
	"q5_1_product":      39068,
	"q5_k_product":      43284,
	"q6_k_product":      45564,
	"q8_0_product":      35276,
	"quantise":          13668,
	"rms_norm":          17380,
	"rotate":            24664,
	"scores":            0,
	"scores_f16":        4304,
	"softmax":           21540,
	"to_f16":            9016,
	"to_q4_0":           9968,
	"to_q8_0":           9416,
	"tq2_0_product":     73620,
	"values":            2064,
	"values_f16":        6484,
	"weigh":             10984,
})
