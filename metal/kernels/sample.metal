// What sampling needs of a row of logits, so that only that is read back.
#include "defs.h"

struct TopArgs {
    uint cols;
    uint k;
    uint src_stride;
    uint dst_stride;
};

// before tells whether value a at index i stands before b at j: larger values first, of equals the lower index.
inline bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// is_finite tells by the exponent's bits, which a compiler that takes all values to be finite cannot know.
inline bool is_finite(float v) { return (as_type<uint>(v) & 0x7f800000) != 0x7f800000; }

// top writes a row's k largest values: their indices, best first, then the values, then the logarithm of the sum of all
// exponentials: [k | k | 1]. Indices are kept as floats, exact below 2^24. NaN is taken for the smallest value; where a value is
// not finite, the sum is infinite. A threadgroup a row; shared has two values a simdgroup.
kernel void top(
    device const float* src [[buffer(0)]],
    device float* dst [[buffer(1)]],
    constant TopArgs& args [[buffer(2)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float* values = shared;
    threadgroup uint* indices = (threadgroup uint*)(shared + simdgroups);
    src += group.x * args.src_stride;
    dst += group.x * args.dst_stride;
    uint threads = simdgroups * 32;
    float last = INFINITY, largest = 0;
    uint last_index = 0;
    for (uint k = 0; k < args.k; k++) {
        // The best of those that stand behind the last one.
        float best = -INFINITY;
        uint index = 0xffffffff;
        for (uint i = tid; i < args.cols; i += threads) {
            float v = src[i] >= -INFINITY ? src[i] : -INFINITY;
            if ((k == 0 || before(last, last_index, v, i)) && before(v, i, best, index)) {
                best = v;
                index = i;
            }
        }
        float top = simd_max(best);
        index = simd_min(best == top ? index : 0xffffffff);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane == 0) {
            values[simdgroup] = top;
            indices[simdgroup] = index;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        best = -INFINITY;
        index = 0xffffffff;
        for (uint i = 0; i < simdgroups; i++) {
            if (before(values[i], indices[i], best, index)) {
                best = values[i];
                index = indices[i];
            }
        }
        if (tid == 0) {
            dst[k] = float(index);
            dst[args.k + k] = best;
        }
        last = best;
        last_index = index;
        if (k == 0) largest = best;
    }
    float sum = 0;
    for (uint i = tid; i < args.cols; i += threads) sum += is_finite(src[i]) ? exp(src[i] - largest) : INFINITY;
    sum = tree_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) values[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid > 0) return;
    float total = 0;
    for (uint i = 0; i < simdgroups; i++) total += values[i];
    dst[2 * args.k] = total < INFINITY ? largest + log(total) : INFINITY;
}
