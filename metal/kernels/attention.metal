// Attention over KV pages for few rows of any sequences. A threadgroup of eight simdgroups takes a
// split of the keys and some of the query heads of a key head. A simdgroup scores a block of 32
// keys, with four lanes for each key; then each thread sums one or more columns of the values over
// all keys. attention_join joins the splits, unless one threadgroup processes all of them.
#include "attention.h"

constant uint blocks = split_keys / 32;  // per split
constant uint threads = split_keys;      // one simdgroup per block

// add_scores adds the products of eight dimensions of four keys and of Q queries to scores. The
// queries are padded values apart.
template <uint Q>
inline void add_scores(thread const float4 (&k)[4][2], threadgroup const float* query, uint padded, thread float (&scores)[Q][4]) {
    UNROLL for (uint h = 0; h < Q; h++) {
        float4 x0 = float4(*(threadgroup const float4*)(query + h * padded)), x1 = float4(*(threadgroup const float4*)(query + h * padded + 4));
        UNROLL for (uint i = 0; i < 4; i++) scores[h][i] = add_four(k[i][1], x1, add_four(k[i][0], x0, scores[h][i]));
    }
}

// Keys are four rows of keys.
struct Keys {
    device const uchar* row[4];
};

constant uint deep_keys = 3;  // how many times 32 dimensions of keys are fetched at once

// fetch_keys fetches eight dimensions of four keys from dimension d on, and those 32 and 64 after
// them.
template <typename P>
inline void fetch_keys(thread const Keys& keys, uint d, thread typename P::Four (&fetched)[deep_keys][4][2]) {
    UNROLL for (uint t = 0; t < deep_keys; t++) {
        UNROLL for (uint i = 0; i < 4; i++) {
            UNROLL for (uint j = 0; j < 2; j++) {
                uint at = d + 32 * t + 4 * j;
                fetched[t][i][j] = P::fetch(keys.row[i], at, at + 4);
            }
        }
    }
}

// add_keys adds the products of four keys and Q queries to scores: of eight dimensions from d on,
// and of those every 32 after them, while there are three times 32. It fetches the next ones before
// it multiplies. It returns the first dimension that it has left out.
template <typename P, uint Q>
inline uint add_keys(thread const Keys& keys, threadgroup const float* query, uint padded, uint dims, uint d, thread float (&scores)[Q][4]) {
    constexpr uint last = 32 * (deep_keys - 1) + 8, step = 32 * deep_keys;
    typename P::Four fetched[deep_keys][4][2], next[deep_keys][4][2];
    if (d + last <= dims) fetch_keys<P>(keys, d, fetched);
    for (; d + last <= dims; d += step) {
        if (d + step + last <= dims) fetch_keys<P>(keys, d + step, next);
        UNROLL for (uint t = 0; t < deep_keys; t++) {
            float4 k[4][2];
            UNROLL for (uint i = 0; i < 4; i++) {
                UNROLL for (uint j = 0; j < 2; j++) {
                    k[i][j] = P::values(fetched[t][i][j]);
                    fetched[t][i][j] = next[t][i][j];
                }
            }
            add_scores<Q>(k, query + d + 32 * t, padded, scores);
        }
    }
    return d;
}

// add_values adds the weighted values of a split to the sums of one query head of four columns from
// column on: those of the keys from key first on, which is a multiple of 32, to key end. by has the
// factor of the sums before each block.
template <typename P>
inline void add_values(device const uchar* values, uint value_bytes, threadgroup const uint* rows, threadgroup const float* weights, threadgroup const float* by, uint column, uint first, uint end, thread float* sums) {
    constexpr uint once = 16;  // how many keys' values are read at once
    typename P::Four fetched[once], next[once];
    UNROLL for (uint t = 0; t < once; t++) fetched[t] = P::fetch(values + ulong(rows[first + t]) * value_bytes, column, column + 4);
    for (uint j = first; j < end; j += once) {
        uint ahead = j + once < end ? j + once : j;
        UNROLL for (uint t = 0; t < once; t++) next[t] = P::fetch(values + ulong(rows[ahead + t]) * value_bytes, column, column + 4);
        float f = j % 32 == 0 ? by[j / 32] : 1.0f;
        UNROLL for (uint i = 0; i < 4; i++) sums[i] *= f;
        UNROLL for (uint t = 0; t < once; t += 4) {
            float4 w = float4(*(threadgroup const float4*)(weights + j + t)), v[4];
            UNROLL for (uint k = 0; k < 4; k++) v[k] = P::values(fetched[t + k]);
            sums[0] = add_four(w, float4(v[0].x, v[1].x, v[2].x, v[3].x), sums[0]);
            sums[1] = add_four(w, float4(v[0].y, v[1].y, v[2].y, v[3].y), sums[1]);
            sums[2] = add_four(w, float4(v[0].z, v[1].z, v[2].z, v[3].z), sums[2]);
            sums[3] = add_four(w, float4(v[0].w, v[1].w, v[2].w, v[3].w), sums[3]);
        }
        UNROLL for (uint t = 0; t < once; t++) fetched[t] = next[t];
    }
}

// attention takes up to Q query heads of one key head at a time, and value heads of up to 512
// values. Grid: (splits or 1, key heads · (their query heads / Q), rows).
template <typename P, uint Q>
kernel void attention(
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
    constexpr uint deep = Q == 2 ? 2 : 1;   // how many times 32 dimensions of keys are read at once
    constexpr uint once = Q == 4 ? 8 : 16;  // how many keys' values are read at once
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
    threadgroup float* weights = query + Q * padded;         // [Q][256] scores, then weights
    threadgroup float* largest = weights + Q * split_keys;   // [Q][blocks] largest score of each block
    threadgroup float* by = largest + Q * blocks;            // [Q][blocks] factors
    threadgroup float* added = by + Q * blocks;              // [Q][blocks] sum of the weights of each block
    threadgroup uint* rows = (threadgroup uint*)(added + Q * blocks);  // [256] page rows of the keys
    q += group.z * args.q_stride + head * args.key_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        for (uint d = tid; d < args.key_dim; d += threads) query[h * padded + d] = q[min(h, heads - 1) * args.key_dim + d];
    }

    // column is the first column of the values that a thread sums; the next one is wide columns
    // after it. The thread sums only for the heads h with h % together == turn. If there is one
    // head, it sums four columns, and reads them at once if they are aligned.
    constexpr uint columns = Q == 1 ? 4 : 2;
    bool fours = Q == 1 && aligned_pages != 0;
    uint together = args.value_dim <= 64 ? 4 : args.value_dim <= 128 ? 2 : 1, wide = fours ? 1 : threads / together;
    uint turn = fours ? 0 : tid / wide, column = fours ? 4 * tid : tid % wide;
    float total[Q][columns], m[Q], l[Q];
    UNROLL for (uint h = 0; h < Q; h++) {
        UNROLL for (uint i = 0; i < columns; i++) total[h][i] = 0;
        m[h] = -INFINITY;
        l[h] = 0;
    }
    uint begin = args.splits > 0 ? group.x * split_keys : low / split_keys * split_keys, end = args.splits > 0 ? min(begin + split_keys, n) : n;
    for (uint split = begin; split < end; split += split_keys) {
        uint in_split = min(n - split, split_keys), first = split + simdgroup * 32;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // Positions to which the row does not attend read the row of one to which it does, with
        // weight 0.
        uint p = clamp(first + lane, low, n - 1);
        rows[tid] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (first < n && first + 32 > low) {
            // Lane i computes part i%4 of the scores of the keys i/4, i/4+8, i/4+16 and i/4+24.
            uint part = lane % 4;
            Keys own;
            UNROLL for (uint i = 0; i < 4; i++) own.row[i] = keys + ulong(rows[32 * simdgroup + 8 * i + lane / 4]) * key_bytes;
            float scores[Q][4];
            UNROLL for (uint h = 0; h < Q; h++) {
                UNROLL for (uint i = 0; i < 4; i++) scores[h][i] = 0;
            }
            uint d = Q == 1 ? add_keys<P, Q>(own, query, padded, args.key_dim, 8 * part, scores) : 8 * part;
            for (; d + 32 * (deep - 1) + 8 <= args.key_dim; d += 32 * deep) {
                float4 k[deep][4][2];  // all reads are issued before the first use
                UNROLL for (uint t = 0; t < deep; t++) {
                    UNROLL for (uint i = 0; i < 4; i++) {
                        k[t][i][0] = P::four(own.row[i], d + 32 * t);
                        k[t][i][1] = P::four(own.row[i], d + 32 * t + 4);
                    }
                }
                UNROLL for (uint t = 0; t < deep; t++) add_scores<Q>(k[t], query + d + 32 * t, padded, scores);
            }
            for (; d + 8 <= args.key_dim; d += 32) {
                float4 k[4][2];
                UNROLL for (uint i = 0; i < 4; i++) {
                    k[i][0] = P::four(own.row[i], d);
                    k[i][1] = P::four(own.row[i], d + 4);
                }
                add_scores<Q>(k, query + d, padded, scores);
            }
            for (; d < args.key_dim; d++) {
                UNROLL for (uint i = 0; i < 4; i++) {
                    float k = P::at(own.row[i], d);
                    UNROLL for (uint h = 0; h < Q; h++) scores[h][i] = fma(k, query[h * padded + d], scores[h][i]);
                }
            }
            UNROLL for (uint h = 0; h < Q; h++) {
                float own = 0;
                UNROLL for (uint i = 0; i < 4; i++) {
                    float sum = scores[h][i];
                    sum += simd_shuffle_xor(sum, 1);
                    sum += simd_shuffle_xor(sum, 2);
                    own = i == part ? sum : own;
                }
                weights[h * split_keys + 32 * simdgroup + 8 * part + lane / 4] = own;
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        bool seen = first + lane < n && first + lane >= low;
        float scores[Q];
        UNROLL for (uint h = 0; h < Q; h++) {
            scores[h] = seen ? weights[h * split_keys + tid] * args.scale : -INFINITY;
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

        float sums[Q][columns];
        UNROLL for (uint h = 0; h < Q; h++) {
            UNROLL for (uint i = 0; i < columns; i++) sums[h][i] = 0;
        }
        uint first_block = low > split ? (low - split) / 32 : 0;  // earlier blocks have no position to which the row attends
        if (fours && column < args.value_dim) add_values<P>(values, value_bytes, rows, weights, by, column, 32 * first_block, in_split, sums[0]);
        for (uint b = first_block; !fours && 32 * b < in_split; b++) {
            UNROLL for (uint h = 0; h < Q; h++) {
                float f = by[h * blocks + b];
                sums[h][0] *= f;
                sums[h][1] *= f;
            }
            for (uint j = 32 * b; j < min(32 * b + 32, in_split); j += once) {
                float v[2][once];  // all reads are issued before the first use
                UNROLL for (uint i = 0; i < 2; i++) {
                    uint d = column + i * wide;
                    if (d < args.value_dim) {
                        UNROLL for (uint t = 0; t < once; t++) v[i][t] = P::at(values + ulong(rows[j + t]) * value_bytes, d);
                    }
                }
                UNROLL for (uint h = 0; h < Q; h++) {
                    if (h % together == turn) {
                        threadgroup const float4* w = (threadgroup const float4*)(weights + h * split_keys + j);
                        UNROLL for (uint t = 0; t < once; t += 4) {
                            float4 four = float4(w[t / 4]);
                            UNROLL for (uint i = 0; i < 2; i++) {
                                if (column + i * wide < args.value_dim) {
                                    sums[h][i] = add_four(four, float4(v[i][t], v[i][t + 1], v[i][t + 2], v[i][t + 3]), sums[h][i]);
                                }
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
                UNROLL for (uint i = 0; i < columns; i++) {
                    uint d = column + i * wide;
                    if (d < args.value_dim) part[2 + d] = sums[h][i];
                }
            } else {
                float2 f = join(m[h], l[h], split_m, split_l);
                UNROLL for (uint i = 0; i < columns; i++) total[h][i] = fma(total[h][i], f.x, sums[h][i] * f.y);
            }
        }
    }
    if (args.splits > 0) return;
    dst += group.z * args.dst_stride + head * args.value_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        float f = sink_factor(args, sinks, head + min(h, heads - 1), m[h], l[h]);
        UNROLL for (uint i = 0; i < columns; i++) {
            uint d = column + i * wide;
            if (h < heads && h % together == turn && d < args.value_dim) dst[h * args.value_dim + d] = total[h][i] * f / l[h];
        }
    }
}

// attention_join joins the splits of a row and head. Grid: (values / 32, heads, rows).
kernel void attention_join(
    device const float* parts [[buffer(0)]],
    device const Slot* slots [[buffer(1)]],
    device float* dst [[buffer(2)]],
    device const float* sinks [[buffer(3)]],
    constant AttentionArgs& args [[buffer(4)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
    uint d = group.x * 32 + lane;
    if (d >= args.value_dim) return;
    parts += (ulong(group.z) * args.heads + group.y) * args.splits * (args.value_dim + 2);
    float m = -INFINITY, l = 0, total = 0;
    uint begin = first_of(args, slots[group.z].position + 1) / split_keys;
    parts += begin * (args.value_dim + 2);
    for (uint split = begin; split * split_keys <= slots[group.z].position; split++) {
        float2 by = join(m, l, parts[0], parts[1]);
        total = fma(total, by.x, parts[2 + d] * by.y);
        parts += args.value_dim + 2;
    }
    float by = sink_factor(args, sinks, group.y, m, l);
    dst[group.z * args.dst_stride + group.y * args.value_dim + d] = total * by / l;
}
