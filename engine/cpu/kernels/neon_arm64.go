// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":   29100,
	"bracket":        13100,
	"f16_product":    27296,
	"f32_product":    25680,
	"from_f16":       8824,
	"from_q4_0":      9716,
	"from_q8_0":      9208,
	"gate":           18044,
	"highest":        22756,
	"iq4_nl_product": 53248,
	"iq4_xs_product": 55224,
	"mxfp4_product":  57296,
	"peak":           10364,
	"q2_k_product":   47968,
	"q3_k_product":   50584,
	"q4_0_product":   30992,
	"q4_1_product":   36920,
	"q4_k_product":   40980,
	"q5_0_product":   32944,
	"q5_1_product":   38864,
	"q5_k_product":   43080,
	"q6_k_product":   45360,
	"q8_0_product":   35072,
	"quantise":       13668,
	"rms_norm":       17380,
	"rotate":         24460,
	"scores":         0,
	"scores_f16":     4304,
	"softmax":        21336,
	"to_f16":         9016,
	"to_q4_0":        9968,
	"to_q8_0":        9416,
	"values":         2064,
	"values_f16":     6484,
	"weigh":          10984,
})
