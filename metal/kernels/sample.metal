// Selection of a row's largest logits, so that the CPU needs to read only these for sampling.
#include "best.h"

struct TopArgs {
    uint cols;
    uint k;
    uint src_stride;
    uint dst_stride;
};

// TopPart has the largest value of a part of a row, the value's index, and the sum of exp(v-value).
// The sum is infinite if a value is NaN or infinity.
struct TopPart {
    float value;
    uint index;
    float sum;
};

// part_size returns the number of values of a part.
inline uint part_size(uint cols) { return (cols + TOP_PARTS - 1) / TOP_PARTS; }

// best_after returns the largest of the values [begin, end) of src that come after the last place
// in the order of before, or of all if last.index is none. NaN counts as the smallest value. All
// threads of the threadgroup call best_after; shared has two values per simdgroup.
inline Place best_after(Place last, device const float* src, uint begin, uint end, threadgroup float* shared, uint tid, uint lane, uint simdgroup, uint simdgroups) {
    constexpr uint together = 8;  // reads that are issued before the first use
    uint threads = simdgroups * 32;
    Place mine = {-INFINITY, none};
    for (uint first = begin + tid; first < end; first += together * threads) {
        float v[together];
        UNROLL for (uint j = 0; j < together; j++) v[j] = src[min(first + j * threads, end - 1)];
        UNROLL for (uint j = 0; j < together; j++) {
            uint i = first + j * threads;
            float own = v[j] >= -INFINITY ? v[j] : -INFINITY;
            if (i < end && (last.index == none || before(last.value, last.index, own, i)) && before(own, i, mine.value, mine.index)) {
                mine.value = own;
                mine.index = i;
            }
        }
    }
    return best_of(mine, shared, (threadgroup uint*)(shared + simdgroups), lane, simdgroup, simdgroups);
}

// top_parts finds the largest value of each part of a row. Grid: (parts, rows). shared has two
// values per simdgroup.
[[max_total_threads_per_threadgroup(TOP_THREADS)]] kernel void top_parts(
    device const float* src [[buffer(0)]],
    device TopPart* parts [[buffer(1)]],
    constant TopArgs& args [[buffer(2)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    src += ulong(group.y) * args.src_stride;
    uint begin = group.x * part_size(args.cols), end = min(begin + part_size(args.cols), args.cols);
    Place all = {0, none}, best = best_after(all, src, begin, end, shared, tid, lane, simdgroup, simdgroups);
    float sum = 0;
    for (uint i = begin + tid; i < end; i += simdgroups * 32) sum += is_finite(src[i]) ? exp(src[i] - best.value) : is_impossible(src[i]) ? 0 : INFINITY;
    sum = tree_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) shared[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid > 0) return;
    float total = 0;
    for (uint i = 0; i < simdgroups; i++) total += shared[i];
    device TopPart& part = parts[group.y * TOP_PARTS + group.x];
    part.value = best.value;
    part.index = best.index;
    part.sum = total;
}

// top_join writes a row's k largest values: their indices, best first, then the values, then the
// logarithm of the sum of all exponentials: [k | k | 1]. Indices are stored as floats, exact below
// 2^24. If a value is NaN or infinity, the sum is infinite. Each lane of a simdgroup holds the best
// value of a part of the row. When this value is written, all threads together search the part for
// its next best value. A threadgroup processes a row. shared has two values per simdgroup.
[[max_total_threads_per_threadgroup(TOP_THREADS)]] kernel void top_join(
    device const float* src [[buffer(0)]],
    device const TopPart* parts [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant TopArgs& args [[buffer(3)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    src += ulong(group.x) * args.src_stride;
    dst += ulong(group.x) * args.dst_stride;
    device const TopPart& part = parts[group.x * TOP_PARTS + lane];
    Place mine = {part.value, part.index};
    float largest = simd_max(mine.value);
    float sum = tree_sum(part.sum > 0 ? (part.sum < INFINITY ? part.sum * exp(part.value - largest) : INFINITY) : 0.0f);
    for (uint k = 0; k < args.k; k++) {
        Place best = {simd_max(mine.value), none};
        best.index = simd_min(mine.value == best.value ? mine.index : none);
        if (tid == 0) {
            dst[k] = float(best.index);
            dst[args.k + k] = best.value;
        }
        if (k + 1 == args.k) break;
        uint owner = best.index / part_size(args.cols), begin = owner * part_size(args.cols);
        Place next = best_after(best, src, begin, min(begin + part_size(args.cols), args.cols), shared, tid, lane, simdgroup, simdgroups);
        if (lane == owner) mine = next;
    }
    if (tid == 0) dst[2 * args.k] = sum < INFINITY ? largest + log(sum) : INFINITY;
}
