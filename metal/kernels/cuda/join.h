// The splits of attention, and how they are joined. The positions of a row are divided into splits
// of split_keys positions. For each head, a split has its largest score m, the sum l of the weights
// exp(score-m), and the weighted sum of the values. In memory, these are [m | l | two unused
// floats | values].
#include "base.h"

enum { split_keys = SPLIT_KEYS, part_header = PART_HEADER };

// lowest returns -infinity, the largest score of a split without positions.
__device__ inline float lowest() { return __int_as_float(0xff800000); }

// Joined has the largest score of the running result and a split, and the factors by which both are
// multiplied before they are added.
struct Joined {
    float m, so_far, split;
};
__device__ inline Joined join(float m, float split_m) {
    float larger = fmaxf(m, split_m);
    return {larger, m < larger ? expf(m - larger) : 1.0f, split_m < larger ? expf(split_m - larger) : 1.0f};
}

// join_sink joins a head's sink, which has a score but no value. It adds the weight of the sink to
// l, the sum of the weights. The score is -infinity if there is no sink.
__device__ inline Joined join_sink(float m, float sink, float& l) {
    Joined j = join(m, sink);
    if (sink > lowest()) l = fmaf(l, j.so_far, j.split);
    return j;
}

// first_of returns the first position to which a row at the given position attends. window is the
// maximum number of positions to which it attends, or 0.
__device__ inline uint first_of(uint position, uint window) { return window != 0 && position >= window ? position + 1 - window : 0; }

// join_splits computes values d to d+3 and d+16 to d+19 of the attention of a row and head to the
// positions from first to last. parts points to the split with position first. sink is the score of
// the head's sink, or -infinity.
__device__ inline void join_splits(const float* parts, uint value_dim, uint first, uint last, float sink, uint d, float4& low, float4& high) {
    float m = lowest(), l = 0, total[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 4
    for (uint split = first / split_keys; split * split_keys <= last; split++) {
        Joined j = join(m, parts[0]);
        float4 a = *(const float4*)(parts + part_header + d), b = *(const float4*)(parts + part_header + d + 16);
        float v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        m = j.m;
        l = fmaf(l, j.so_far, parts[1] * j.split);
        UNROLL for (uint i = 0; i < 8; i++) total[i] = fmaf(total[i], j.so_far, v[i] * j.split);
        parts += value_dim + part_header;
    }
    Joined j = join_sink(m, sink, l);
    UNROLL for (uint i = 0; i < 8; i++) total[i] = total[i] * j.so_far / l;
    low = make_float4(total[0], total[1], total[2], total[3]);
    high = make_float4(total[4], total[5], total[6], total[7]);
}
