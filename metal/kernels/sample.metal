// Selection of a row's largest logits, so that the CPU needs to read only these for sampling.
#include "best.h"

struct TopArgs {
    uint cols;
    uint k;
    uint src_stride;
    uint dst_stride;
};

// value_at returns value i of src, or -infinity if it is NaN.
inline float value_at(device const float* src, uint i) { return src[i] >= -INFINITY ? src[i] : -INFINITY; }

// better returns p or the place with index i, whichever comes first in the order of before.
inline Place better(Place p, device const float* src, uint i) {
    float v = value_at(src, i);
    if (before(v, i, p.value, p.index)) {
        p.value = v;
        p.index = i;
    }
    return p;
}

// top writes a row's k largest values: their indices, best first, then the values, then the
// logarithm of the sum of all exponentials: [k | k | 1]. Indices are stored as floats, exact below
// 2^24. NaN counts as the smallest value. If a value is NaN or infinity, the sum is infinite. Each
// thread holds the best value of its share of the row. When this value is written, all threads
// together search the share for its next best value. A threadgroup processes a row. shared has two
// values per simdgroup.
[[max_total_threads_per_threadgroup(TOP_THREADS)]] kernel void top(
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
        // All threads search for the next best value in the share of the thread that held the best
        // one.
        uint owner = best.index % threads;
        Place next = {-INFINITY, none};
        for (uint i = owner + tid * threads; i < args.cols; i += threads * threads) {
            if (before(best.value, best.index, value_at(src, i), i)) next = better(next, src, i);
        }
        next = best_of(next, values, indices, lane, simdgroup, simdgroups);
        if (tid == owner) mine = next;
    }
    float sum = 0;
    for (uint i = tid; i < args.cols; i += threads) sum += is_finite(src[i]) ? exp(src[i] - largest) : is_impossible(src[i]) ? 0 : INFINITY;
    sum = tree_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) values[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid > 0) return;
    float total = 0;
    for (uint i = 0; i < simdgroups; i++) total += values[i];
    dst[2 * args.k] = total < INFINITY ? largest + log(total) : INFINITY;
}
