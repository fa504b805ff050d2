// Tests of the parts of Metal's language and library that the kernels use.
#include "defs.h"

CONSTANT(uint, some_count, 0)
CONSTANT(float, some_value, 3)
CONSTANT(bool, some_flag, 4)

struct Args {
    uint n;
};

kernel void language(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    uint lane [[thread_index_in_simdgroup]]) {
    float v = x[lane];
    x[lane] = simd_sum(v);
    x[32 + lane] = simd_max(v);
    x[64 + lane] = simd_min(v);
    x[96 + lane] = simd_prefix_exclusive_sum(v);
    x[128 + lane] = simd_shuffle_xor(v, 5);
    x[160 + lane] = simd_broadcast(v, 7);
    x[192 + lane] = rsqrt(v + 1.0f);
    half h = half(v + 0.5f);
    x[224 + lane] = float(h);
    float4 four = float4(v, v + 1, v + 2, v + 3);
    x[256 + lane] = four.x + four.y + four.z + four[3];
    float third = exp(v / 3.0f);
    x[288 + lane] = third;
    float sum[1] = {third};
    tree_sums<1>(sum);
    x[320 + lane] = sum[0];
}

kernel void matrices(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]]) {
    simdgroup_float8x8 a, b, c = make_filled_simdgroup_matrix<float, 8, 8>(0.5f);
    simdgroup_load(a, x, 8);
    simdgroup_load(b, x + 64, 8, ulong2(0, 0), true);
    simdgroup_multiply_accumulate(c, a, b, c);
    simdgroup_store(c, x + 128, 8);
}

kernel void constants(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    uint tid [[thread_index_in_threadgroup]]) {
    if (tid > 0) return;
    x[0] = float(some_count);
    x[1] = some_value;
    x[2] = some_flag ? 1.0f : 0.0f;
}

// infinities computes with the values in x: 1, 0, infinity and NaN.
kernel void infinities(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    uint tid [[thread_index_in_threadgroup]]) {
    if (tid > 0) return;
    float one = x[0], zero = x[1], infinity = x[2], nan = x[3];
    x[4] = exp(-infinity);
    x[5] = exp(one - infinity) * infinity;
    x[6] = max(-infinity, one);
    x[7] = one / zero;
    x[8] = infinity - infinity;
    x[9] = isinf(infinity) ? 1.0f : 0.0f;
    x[10] = isnan(nan) ? 1.0f : 0.0f;
    x[11] = nan >= -infinity ? 1.0f : 0.0f;
    x[12] = -INFINITY < one ? 1.0f : 0.0f;
    x[13] = one + zero / (one / zero);
}
