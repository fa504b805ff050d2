// What sampling needs of a row of logits, so that only that is read back.
#include "defs.h"

struct TopArgs {
    uint cols;
    uint k;
    uint src_stride;
    uint dst_stride;
};

// Place is a value and its index.
struct Place {
    float value;
    uint index;
};
constant uint none = 0xffffffff;  // index of no value

// before tells whether value a at index i stands before b at j: larger values first, of equals the lower index.
inline bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// value_at takes NaN for the smallest value.
inline float value_at(device const float* src, uint i) { return src[i] >= -INFINITY ? src[i] : -INFINITY; }

// better is p, or the place of i where it stands before p.
inline Place better(Place p, device const float* src, uint i) {
    float v = value_at(src, i);
    if (before(v, i, p.value, p.index)) {
        p.value = v;
        p.index = i;
    }
    return p;
}

// best_of is the first of all threads' places. values and indices have one for each simdgroup.
inline Place best_of(Place p, threadgroup float* values, threadgroup uint* indices, uint lane, uint simdgroup, uint simdgroups) {
    float top = simd_max(p.value);
    uint index = simd_min(p.value == top ? p.index : none);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) {
        values[simdgroup] = top;
        indices[simdgroup] = index;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Place best = {-INFINITY, none};
    for (uint i = 0; i < simdgroups; i++) {
        if (before(values[i], indices[i], best.value, best.index)) {
            best.value = values[i];
            best.index = indices[i];
        }
    }
    return best;
}

// is_finite tells by the exponent's bits, which a compiler that takes all values to be finite cannot know.
inline bool is_finite(float v) { return (as_type<uint>(v) & 0x7f800000) != 0x7f800000; }

// top writes a row's k largest values: their indices, best first, then the values, then the logarithm of the sum of all
// exponentials: [k | k | 1]. Indices are kept as floats, exact below 2^24. NaN is taken for the smallest value; where a value is
// not finite, the sum is infinite. The row is gone through twice, whatever k is: each thread keeps the best of every so many
// values, and those of one thread are looked at again when its best was taken. A threadgroup a row; shared has two values a
// simdgroup.
[[max_total_threads_per_threadgroup(512)]] kernel void top(
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
    Place mine = {-INFINITY, none};
    for (uint i = tid; i < args.cols; i += threads) mine = better(mine, src, i);
    float largest = 0;
    for (uint k = 0; k < args.k; k++) {
        Place best = best_of(mine, values, indices, lane, simdgroup, simdgroups);
        if (tid == 0) {
            dst[k] = float(best.index);
            dst[args.k + k] = best.value;
        }
        if (k == 0) largest = best.value;
        if (k + 1 == args.k) break;
        // All threads look for what the owner of the best has behind it.
        uint owner = best.index % threads;
        Place next = {-INFINITY, none};
        for (uint i = owner + tid * threads; i < args.cols; i += threads * threads) {
            if (before(best.value, best.index, value_at(src, i), i)) next = better(next, src, i);
        }
        next = best_of(next, values, indices, lane, simdgroup, simdgroups);
        if (tid == owner) mine = next;
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
