// Attention of few rows, for which one simdgroup per head would not occupy the whole GPU. A
// threadgroup of eight simdgroups takes a split of the keys and some of the query heads of a key
// head. A simdgroup scores a block of 32 keys, one key per lane; then each thread sums one or more
// columns of the values over all keys. Every sum has the same order as in attention.metal, so that
// a row has the same bits.
#include "attention.h"

constant uint blocks = split_keys / 32;  // per split
constant uint threads = split_keys;      // one simdgroup per block

// attention_split takes up to Q query heads of one key head at a time, and value heads of up to 512
// values. Grid: (splits or 1, key heads · (their query heads / Q), rows).
template <typename P, uint Q>
kernel void attention_split(
    device const float* q [[buffer(0)]],
    device const uchar* keys [[buffer(1)]],
    device const uchar* values [[buffer(2)]],
    device const Slot* slots [[buffer(3)]],
    device const int* tables [[buffer(4)]],
    device float* parts [[buffer(5)]],
    device float* dst [[buffer(6)]],
    device const float* sinks [[buffer(7)]],
    constant AttentionArgs& args [[buffer(8)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    device const Slot& at = slots[group.z];
    uint n = at.position + 1, low = first_of(args, n), per = args.heads / args.kv_heads, groups = (per + Q - 1) / Q;
    if (group.x * split_keys >= n || (args.splits > 0 && (group.x + 1) * split_keys <= low)) return;
    uint kv_head = group.y / groups, head = kv_head * per + group.y % groups * Q;
    uint heads = min(Q, per - group.y % groups * Q);
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    device const int* pages = tables + at.pages;

    uint padded = (args.key_dim + 3) / 4 * 4;
    threadgroup float* query = shared;                       // [Q][padded]
    threadgroup float* weights = query + Q * padded;         // [Q][256]
    threadgroup float* largest = weights + Q * split_keys;   // [Q][blocks] largest score of each block
    threadgroup float* by = largest + Q * blocks;            // [Q][blocks] factors
    threadgroup float* added = by + Q * blocks;              // [Q][blocks] sum of the weights of each block
    threadgroup uint* rows = (threadgroup uint*)(added + Q * blocks);  // [256] page rows of the keys
    q += group.z * args.q_stride + head * args.key_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        for (uint d = tid; d < args.key_dim; d += threads) query[h * padded + d] = q[min(h, heads - 1) * args.key_dim + d];
    }

    // column is the first column of the values that a thread sums. The thread sums only for the
    // heads h with h % together == turn.
    uint together = args.value_dim <= 64 ? 4 : args.value_dim <= 128 ? 2 : 1, wide = threads / together;
    uint turn = tid / wide, column = tid % wide;
    float total[Q][2], m[Q], l[Q];
    UNROLL for (uint h = 0; h < Q; h++) {
        total[h][0] = total[h][1] = 0;
        m[h] = -INFINITY;
        l[h] = 0;
    }
    uint begin = args.splits > 0 ? group.x * split_keys : low / split_keys * split_keys, end = args.splits > 0 ? min(begin + split_keys, n) : n;
    for (uint split = begin; split < end; split += split_keys) {
        uint in_split = min(n - split, split_keys), first = split + simdgroup * 32, p = max(first + lane, low);
        bool seen = first + lane < n && first + lane >= low;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float scores[Q];
        UNROLL for (uint h = 0; h < Q; h++) scores[h] = seen ? 0.0f : -INFINITY;
        if (first + lane < n) {  // lanes for positions before the window read the row of the window's first position, with weight 0
            rows[tid] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
        }
        if (seen) {
            device const uchar* key = keys + ulong(rows[tid]) * key_bytes;
            uint d = 0;
            for (; d + 32 <= args.key_dim; d += 32) {
                // Issue all reads before the first use.
                float4 k0 = P::four(key, d), k1 = P::four(key, d + 4), k2 = P::four(key, d + 8), k3 = P::four(key, d + 12);
                float4 k4 = P::four(key, d + 16), k5 = P::four(key, d + 20), k6 = P::four(key, d + 24), k7 = P::four(key, d + 28);
                UNROLL for (uint h = 0; h < Q; h++) {
                    threadgroup const float4* x = (threadgroup const float4*)(query + h * padded + d);
                    float4 x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3], x4 = x[4], x5 = x[5], x6 = x[6], x7 = x[7];
                    float sum = add_four(k3, x3, add_four(k2, x2, add_four(k1, x1, add_four(k0, x0, scores[h]))));
                    scores[h] = add_four(k7, x7, add_four(k6, x6, add_four(k5, x5, add_four(k4, x4, sum))));
                }
            }
            for (; d + 4 <= args.key_dim; d += 4) {
                float4 k = P::four(key, d);
                UNROLL for (uint h = 0; h < Q; h++) scores[h] = add_four(k, *(threadgroup const float4*)(query + h * padded + d), scores[h]);
            }
            for (; d < args.key_dim; d++) {
                float k = P::at(key, d);
                UNROLL for (uint h = 0; h < Q; h++) scores[h] = fma(k, query[h * padded + d], scores[h]);
            }
            UNROLL for (uint h = 0; h < Q; h++) scores[h] *= args.scale;
        }
        UNROLL for (uint h = 0; h < Q; h++) {
            float top = simd_max(scores[h]);
            if (lane == 0) largest[h * blocks + simdgroup] = top;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // The weights of a block are relative to the largest score up to and including the block.
        float sums_of_weights[Q];
        UNROLL for (uint h = 0; h < Q; h++) {
            float before = -INFINITY;
            for (uint b = 0; b < simdgroup; b++) before = max(before, largest[h * blocks + b]);
            float larger = max(before, largest[h * blocks + simdgroup]);
            float weight = exp(scores[h] - larger);
            weights[h * split_keys + tid] = weight;
            sums_of_weights[h] = weight;
            if (lane == 0) by[h * blocks + simdgroup] = exp(before - larger);
        }
        tree_sums<Q>(sums_of_weights);
        UNROLL for (uint h = 0; h < Q; h++) {
            if (lane == 0) added[h * blocks + simdgroup] = sums_of_weights[h];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        float sums[Q][2];
        UNROLL for (uint h = 0; h < Q; h++) sums[h][0] = sums[h][1] = 0;
        uint first_block = low > split ? (low - split) / 32 : 0;  // earlier blocks have no position to which the row attends
        for (uint b = first_block; 32 * b < in_split; b++) {
            uint count = min(in_split - 32 * b, 32u);
            UNROLL for (uint h = 0; h < Q; h++) {
                float f = by[h * blocks + b];
                sums[h][0] *= f;
                sums[h][1] *= f;
            }
            // Issue the reads of several keys' values before the first use. Reads past the last key
            // read that key again and are not used.
            for (uint j = 0; j < count; j += 8) {
                UNROLL for (uint i = 0; i < 2; i++) {
                    uint d = column + i * wide;
                    if (d < args.value_dim) {
                        float v[8];
                        UNROLL for (uint t = 0; t < 8; t++) v[t] = P::at(values + ulong(rows[32 * b + min(j + t, count - 1)]) * value_bytes, d);
                        UNROLL for (uint t = 0; t < 8; t++) {
                            UNROLL for (uint h = 0; h < Q; h++) {
                                if (j + t < count && h % together == turn) sums[h][i] = fma(weights[h * split_keys + 32 * b + j + t], v[t], sums[h][i]);
                            }
                        }
                    }
                }
            }
        }
        UNROLL for (uint h = 0; h < Q; h++) {
            float split_m = -INFINITY, split_l = 0;
            for (uint b = first_block; 32 * b < in_split; b++) {
                split_m = max(split_m, largest[h * blocks + b]);
                split_l = fma(split_l, by[h * blocks + b], added[h * blocks + b]);
            }
            if (args.splits > 0) {
                if (h >= heads || h % together != turn) continue;
                device float* part = parts + ((ulong(group.z) * args.heads + head + h) * args.splits + group.x) * (args.value_dim + 2);
                if (column == 0) {
                    part[0] = split_m;
                    part[1] = split_l;
                }
                UNROLL for (uint i = 0; i < 2; i++) {
                    uint d = column + i * wide;
                    if (d < args.value_dim) part[2 + d] = sums[h][i];
                }
            } else {
                float2 f = join(m[h], l[h], split_m, split_l);
                UNROLL for (uint i = 0; i < 2; i++) total[h][i] = fma(total[h][i], f.x, sums[h][i] * f.y);
            }
        }
    }
    if (args.splits > 0) return;
    dst += group.z * args.dst_stride + head * args.value_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        float f = sink_factor(args, sinks, head + min(h, heads - 1), m[h], l[h]);
        UNROLL for (uint i = 0; i < 2; i++) {
            uint d = column + i * wide;
            if (h < heads && h % together == turn && d < args.value_dim) dst[h * args.value_dim + d] = total[h][i] * f / l[h];
        }
    }
}
