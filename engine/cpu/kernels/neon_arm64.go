// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":   25796,
	"f16_product":    23992,
	"f32_product":    22376,
	"from_f16":       8824,
	"from_q4_0":      9716,
	"from_q8_0":      9208,
	"gate":           14740,
	"highest":        19452,
	"iq4_nl_product": 49944,
	"iq4_xs_product": 51920,
	"mxfp4_product":  53992,
	"q2_k_product":   44664,
	"q3_k_product":   47280,
	"q4_0_product":   27688,
	"q4_1_product":   33616,
	"q4_k_product":   37676,
	"q5_0_product":   29640,
	"q5_1_product":   35560,
	"q5_k_product":   39776,
	"q6_k_product":   42056,
	"q8_0_product":   31768,
	"quantise":       10364,
	"rms_norm":       14076,
	"rotate":         21156,
	"scores":         0,
	"scores_f16":     4304,
	"softmax":        18032,
	"to_f16":         9016,
	"to_q4_0":        9968,
	"to_q8_0":        9416,
	"values":         2064,
	"values_f16":     6484,
})
