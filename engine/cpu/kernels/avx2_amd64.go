// Code generated from c/kernels.c by generate; DO NOT EDIT.

package kernels

import "unsafe"

//go:noescape
func avx2Call(offset uintptr, args unsafe.Pointer)

// avx2 has the kernels for AVX2.
var avx2 = compiled("avx2", avx2Call, map[string]uintptr{
	"bf16_product":      30896,
	"bracket":           13696,
	"f16_product":       28304,
	"f32_product":       25680,
	"from_f16":          9136,
	"from_q4_0":         10160,
	"from_q8_0":         9488,
	"gate":              17936,
	"highest":           22304,
	"iq1_m_product":     136560,
	"iq1_s_product":     131040,
	"iq2_xs_product":    123696,
	"iq2_xxs_product":   117776,
	"iq3_s_product":     112464,
	"iq3_xxs_product":   107152,
	"iq4_nl_product":    91232,
	"iq4_xs_product":    96416,
	"mxfp4_product":     101728,
	"nvfp4_f32_product": 155728,
	"nvfp4_product":     148832,
	"peak":              11104,
	"q2_k_product":      77184,
	"q3_k_product":      84112,
	"q4_0_product":      33728,
	"q4_1_product":      48304,
	"q4_k_product":      58896,
	"q5_0_product":      38288,
	"q5_1_product":      53264,
	"q5_k_product":      64112,
	"q6_k_product":      70032,
	"q8_0_product":      43488,
	"quantise":          14192,
	"rms_norm":          17008,
	"rotate":            23968,
	"scores":            0,
	"scores_f16":        4480,
	"softmax":           20592,
	"to_f16":            9312,
	"to_q4_0":           10368,
	"to_q8_0":           9632,
	"tq2_0_product":     143776,
	"values":            1824,
	"values_f16":        6400,
	"weigh":             11936,
})
