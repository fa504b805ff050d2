// Definitions for every kernel file. Kernels are written in Metal Shading Language. Drivers other
// than Apple's define the macros in the first part differently.
#if defined(__METAL_VERSION__)
// Check that setLanguageVersion had an effect. Otherwise, Metal's compiler uses an old version for
// programs that declare no minimum system version, such as Go programs. __METAL_VERSION__ has three
// digits.
#if __METAL_VERSION__ < 310
#error "the kernels require Metal 3.1, but the compiler uses an older version"
#endif
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
// The compiler must not fuse products and sums; kernels call fma where they are to be fused. So
// kernels that are written differently compute the same bits.
#pragma STDC FP_CONTRACT OFF
// INSTANTIATE(name, function, arguments...) instantiates a template as a kernel with the given
// name.
#define INSTANTIATE(name, function, ...) template [[host_name(name)]] kernel decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;
// CONSTANT(type, name, index) declares a function constant, whose value is set when the pipeline is
// made.
#define CONSTANT(type, name, index) constant type name [[function_constant(index)]];
// TABLE declares an array of constants.
#define TABLE constant
// UNROLL unrolls a loop over a thread's array, since compilers do not unroll long loops. The
// indices are then known at compile time, and the array is in registers instead of memory.
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

using namespace metal;

// The backend defines the names in capitals that no header defines: the sizes that it shares with
// the kernels, EACH_TYPE and EACH_PAGE_TYPE (metal/defines.go). EACH_TYPE(X) expands to X(struct,
// name) for every type of weights. name is the type's name in GGUF and in the names of kernels.

// tree_sums sums each of N values over the lanes of a simdgroup in a fixed tree: lane i adds lane
// i^16, then i^8, and so on. All lanes receive the sums. simd_sum is not used, since its order
// depends on the device. A driver may define a faster version with the same order.
#if !defined(TREE_SUMS)
template <uint N>
inline void tree_sums(thread float* v) {
    UNROLL for (uint i = 0; i < N; i++) {
        v[i] += simd_shuffle_xor(v[i], 16);
        v[i] += simd_shuffle_xor(v[i], 8);
        v[i] += simd_shuffle_xor(v[i], 4);
        v[i] += simd_shuffle_xor(v[i], 2);
        v[i] += simd_shuffle_xor(v[i], 1);
    }
}
#endif

inline float tree_sum(float v) {
    tree_sums<1>(&v);
    return v;
}

// add_four adds the products of four pairs of values to a sum, in order.
inline float add_four(float4 a, float4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }

// store_four writes four values to threadgroup memory, at a multiple of 16 bytes.
#if !defined(STORE_FOUR)
inline void store_four(threadgroup float* to, float a, float b, float c, float d) { *(threadgroup float4*)to = float4(a, b, c, d); }
#endif

// activate returns the gated activation of a gate product x and an up product. kind is a
// compute.Activation. All activations are computed as x·σ(inner)·up. For gelu, this uses
// (1+tanh(z))/2 = σ(2z), with z = sqrt(2/π)·(x + 0.044715·x³). Only ReLU is max(x, 0)·up.
inline float activate(uint kind, float x, float up) {
    float inner = x;
    if (kind == 3) return max(x, 0.0f) * up;
    if (kind == 1) {  // gelu, approximated by tanh
        inner = 1.5957691216f * (x + 0.044715f * x * x * x);
    } else if (kind == 2) {  // the clamped SwiGLU of gpt-oss
        x = min(x, 7.0f);
        up = clamp(up, -7.0f, 7.0f) + 1.0f;
        inner = 1.702f * x;
    }
    return x / (1.0f + exp(-inner)) * up;
}
