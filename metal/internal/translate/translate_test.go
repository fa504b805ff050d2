package translate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal/internal/translate"
)

// TestC checks that C removes everything that C++ does not have, and that it passes a description
// of each kernel to entry.
func TestC(t *testing.T) {
	t.Parallel()
	const text = `#include <metal_stdlib>
constant uint width = 4;
struct Args { uint n; };
inline float first(device const float* p, thread float* v) { return p[0] + v[0]; } // device stays in comments
template <typename W, uint N = 2>
[[max_total_threads_per_threadgroup(256)]] kernel void scale(
    device const W* x [[buffer(0)]],
    device float* y [[buffer(1)]],
    constant Args& args [[buffer(2)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]]) {
    y[0] = float(x[group.x]);
}
[[max_total_threads_per_threadgroup(512)]] kernel void one(device float* y [[buffer(0)]]) { y[0] = 1; }
`
	var kernels []translate.Kernel
	got, err := translate.C(text, func(k *translate.Kernel) string {
		kernels = append(kernels, *k)
		return "/*" + k.Call() + "*/"
	})
	require.NoError(t, err)
	require.Equal(t, `
const uint width = 4;
struct Args { uint n; };
inline float first(ingot::device_ptr<const float> p,  float* v) { return p[0] + v[0]; } // device stays in comments
template <typename W, uint N = 2>
 void scale (
    ingot::device_ptr<const W> x ,
    ingot::device_ptr<float> y ,
    const Args& args ,
    ingot::threadgroup_ptr<float> shared ,
    uint3 group ) {
    y[0] = float(x[group.x]);
}/*scale<W, N>*/
 void one (ingot::device_ptr<float> y ) { y[0] = 1; }/*one*/
`, got)
	require.Equal(t, []translate.Kernel{
		{
			Name: "scale", Template: "template <typename W, uint N = 2>", MaxThreads: 256, Buffers: 2, Args: "Args", Shared: true,
			Parameters: []translate.Parameter{
				{Kind: translate.Buffer, Type: "const W", Attribute: "buffer(0)"}, {Kind: translate.Buffer, Type: "float", Attribute: "buffer(1)"},
				{Kind: translate.Args, Type: "Args", Attribute: "buffer(2)"}, {Kind: translate.Shared, Type: "float", Attribute: "threadgroup(0)"},
				{Kind: translate.Index, Attribute: "threadgroup_position_in_grid"},
			},
		},
		{Name: "one", MaxThreads: 512, Buffers: 1, Parameters: []translate.Parameter{{Kind: translate.Buffer, Type: "float", Attribute: "buffer(0)"}}},
	}, kernels)
}

// TestCRefuses checks the errors for unsupported parameters and for texts that end too early.
func TestCRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"kernel void f(device float* a [[buffer(1)]]) {}":                              "kernel f: parameter \"ingot::device_ptr<float> a\" has [[buffer(1)]]: buffers must be numbered from 0",
		"kernel void f(constant A& a [[buffer(0)]], device float* b [[buffer(0)]]) {}": "the argument struct must be the last",
		"kernel void f(uint i [[thread_position_in_grid]]) {}":                         "attribute [[thread_position_in_grid]] is not supported: use a device pointer",
		"kernel void f(device float* a [[buffer(0)]]":                                  "the closing parenthesis of the parameters is missing",
		"kernel void f(device float* a [[buffer(0)]]) { if (a[0]) {":                   "the closing brace of the body is missing",
		"template <typename T": `has no matching ">"`,
	} {
		_, err := translate.C(text, func(*translate.Kernel) string { return "" })
		require.ErrorContains(t, err, want, text)
	}
}
