// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func neonCall(offset uintptr, args unsafe.Pointer)

// neon has the kernels for NEON with dot products.
var neon = compiled("neon", neonCall, map[string]uintptr{
	"bf16_product":   24772,
	"f16_product":    22968,
	"f32_product":    21352,
	"from_f16":       8824,
	"from_q4_0":      9716,
	"from_q8_0":      9208,
	"gate":           13716,
	"highest":        18428,
	"iq4_nl_product": 58068,
	"iq4_xs_product": 60904,
	"mxfp4_product":  63892,
	"q2_k_product":   50824,
	"q3_k_product":   54332,
	"q4_0_product":   26664,
	"q4_1_product":   35060,
	"q4_k_product":   40908,
	"q5_0_product":   29388,
	"q5_1_product":   37808,
	"q5_k_product":   43912,
	"q6_k_product":   47268,
	"q8_0_product":   32464,
	"quantise":       10364,
	"rms_norm":       13052,
	"rotate":         20132,
	"scores":         0,
	"scores_f16":     4304,
	"softmax":        17008,
	"to_f16":         9016,
	"to_q4_0":        9968,
	"to_q8_0":        9416,
	"values":         2064,
	"values_f16":     6484,
})
