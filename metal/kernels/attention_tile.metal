// Attention of many rows of a sequence, such as a prompt, with simdgroup matrices. A threadgroup of
// eight simdgroups processes 16 or 32 pairs, each of a row and a query head. All pairs of a
// threadgroup read the keys of the same key head. It takes two blocks of 32 keys at a time.
#include "attention.h"

// AttentionTile describes consecutive pairs of a sequence. The pairs are numbered row by row.
struct AttentionTile {
    uint row;    // first row of the sequence in the batch
    uint first;  // first pair
    uint count;
};

constant uint key_stride = KEY_STRIDE;      // distance of rows of 64 values of keys in threadgroup memory
constant uint score_stride = SCORE_STRIDE;  // distance of rows of 64 scores
constant uint scores_at = SCORES_AT;        // where the scores begin, after the values that are staged

// query_four reads four of a query's n values, from d on. Past its end they are zeros.
inline float4 query_four(device const float* query, uint d, uint n) {
    if (aligned_pages != 0) return d + 4 <= n ? float4(*(device const float4*)(query + d)) : float4(0.0f);
    if (d + 4 <= n) return float4(*(device const packed_float4*)(query + d));
    if (d >= n) return float4(0.0f);
    return float4(query[d], d + 1 < n ? query[d + 1] : 0.0f, d + 2 < n ? query[d + 2] : 0.0f, 0.0f);
}

inline void stage_four(float4 v, threadgroup float* to) { store_four(to, v.x, v.y, v.z, v.w); }

// attention_tile supports values of up to 32·C dimensions, of which each simdgroup sums an eighth,
// and 8·M pairs. Between splits, the joined sums are in dst. Grid: (tiles, key heads).
template <typename P, uint C, uint M>
kernel void attention_tile(
    device const float* q [[buffer(0)]],
    device const uchar* keys [[buffer(1)]],
    device const uchar* values [[buffer(2)]],
    device const Slot* slots [[buffer(3)]],
    device const int* tables [[buffer(4)]],
    device const AttentionTile* tiles [[buffer(5)]],
    device float* dst [[buffer(6)]],
    device const float* sinks [[buffer(7)]],
    constant AttentionArgs& args [[buffer(8)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    constexpr uint pairs = 8 * M, mine = C / 2;           // the simdgroup's matrices of values
    constexpr uint wide = mine < 8 ? mine : 8;            // matrices of values that are staged at once
    constexpr uint deep = 64 / wide;                      // their keys
    constexpr uint value_stride = 8 * wide + 4;
    constexpr uint across = 2 * wide;                     // lanes that stage the values of a key, four each
    device const AttentionTile& tile = tiles[group.x];
    uint kv_head = group.y, per = args.heads / args.kv_heads;
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    uint last = tile.row + (tile.first + tile.count - 1) / per;
    uint n = slots[last].position + 1;  // the last row has the highest position
    uint low = first_of(args, slots[tile.row + tile.first / per].position + 1);  // the first position to which any pair attends
    device const int* pages = tables + slots[last].pages;

    threadgroup float* staged = shared;                   // [64 keys and then the pairs][key_stride], parts of scores, or [8][deep][value_stride]
    threadgroup float* scores = staged + scores_at;       // [pairs][score_stride], then weights
    threadgroup float* by = shared + max((64 + pairs) * key_stride, scores_at + pairs * score_stride);  // [2][pairs]
    threadgroup float* split_m = by + 2 * pairs;                // [pairs], as are the next arrays
    threadgroup float* split_l = split_m + pairs;
    threadgroup float* joined_m = split_l + pairs;
    threadgroup float* joined_l = joined_m + pairs;
    threadgroup float* join_f = joined_l + pairs;
    threadgroup float* join_g = join_f + pairs;
    threadgroup uint* sees = (threadgroup uint*)(join_g + pairs);  // [pairs]: position of the pair's row plus 1
    threadgroup uint* rows = sees + pairs;                         // [64]: page rows of two blocks of keys

    // The row and the first column of the lane's two elements in an 8 by 8 matrix. Rows are pairs.
    uint r = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2;
    // The simdgroup computes one of the four parts of the scores of half of the keys.
    uint part = simdgroup % 4, half_of = simdgroup / 4;
    // The thread stages four values of every 16th key and query.
    uint own = tid / 16, from_staged = tid % 16 * 4, queries[M / 2];
    UNROLL for (uint i = 0; i < M / 2; i++) {
        uint pair = tile.first + min(own + 16 * i, tile.count - 1);
        queries[i] = (tile.row + pair / per) * args.q_stride + (kv_head * per + pair % per) * args.key_dim;
    }
    if (tid < pairs) {
        uint pair = tile.first + min(tid, tile.count - 1);
        sees[tid] = slots[tile.row + pair / per].position + 1;
        joined_m[tid] = -INFINITY;
        joined_l[tid] = 0;
    }
    uint begin = low / split_keys * split_keys;
    for (uint split = begin; split < n; split += split_keys) {
        if (tid < pairs) {
            split_m[tid] = -INFINITY;
            split_l[tid] = 0;
        }
        simdgroup_float8x8 sums[M][mine];
        UNROLL for (uint c = 0; c < mine; c++) {
            UNROLL for (uint m = 0; m < M; m++) sums[m][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
        uint end = min(split + split_keys, n);
        for (uint first = max(split, low / 32 * 32); first < end; first += 64) {
            uint blocks = first + 32 < end ? 2 : 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (tid < 64) {
                uint p = clamp(first + tid, low, n - 1);  // positions to which no pair attends get weight 0
                rows[tid] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
            }
            simdgroup_float8x8 parts[M][4];
            UNROLL for (uint j = 0; j < 4; j++) {
                UNROLL for (uint m = 0; m < M; m++) parts[m][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // The thread reads the next values while those before are multiplied.
            uint own_rows[4];
            typename P::Four k[4];
            float4 x[M / 2];
            UNROLL for (uint i = 0; i < 4; i++) {
                own_rows[i] = rows[own + 16 * i];
                k[i] = P::fetch(keys + ulong(own_rows[i]) * key_bytes, from_staged, args.key_dim);
            }
            UNROLL for (uint i = 0; i < M / 2; i++) x[i] = query_four(q + queries[i], from_staged, args.key_dim);
            for (uint d = 0; d < args.key_dim; d += 64) {
                UNROLL for (uint i = 0; i < 4; i++) stage_four(P::values(k[i]), staged + (own + 16 * i) * key_stride + from_staged);
                UNROLL for (uint i = 0; i < M / 2; i++) stage_four(x[i], staged + (64 + own + 16 * i) * key_stride + from_staged);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                if (d + 64 < args.key_dim) {
                    UNROLL for (uint i = 0; i < 4; i++) k[i] = P::fetch(keys + ulong(own_rows[i]) * key_bytes, d + 64 + from_staged, args.key_dim);
                    UNROLL for (uint i = 0; i < M / 2; i++) x[i] = query_four(q + queries[i], d + 64 + from_staged, args.key_dim);
                }
                UNROLL for (uint i = 0; i < 64; i += 32) {
                    uint at = i + 8 * part;
                    if (d + at < args.key_dim) {
                        simdgroup_float8x8 a[M], b;
                        UNROLL for (uint m = 0; m < M; m++) simdgroup_load(a[m], staged + (64 + 8 * m) * key_stride + at, key_stride);
                        UNROLL for (uint j = 0; j < 4; j++) {
                            simdgroup_load(b, staged + (32 * half_of + 8 * j) * key_stride + at, key_stride, ulong2(0, 0), true);
                            UNROLL for (uint m = 0; m < M; m++) simdgroup_multiply_accumulate(parts[m][j], a[m], b, parts[m][j]);
                        }
                    }
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
            // Parts 1 and 3 are added to parts 0 and 2, and these to each other.
            for (uint step = 1; step < 3; step++) {
                threadgroup float* exchanged = staged + (2 * half_of + (step == 1 ? part / 2 : 0)) * M * 256 + 2 * lane;
                if (part % (2 * step) == step) {
                    UNROLL for (uint i = 0; i < 4 * M; i++) {
                        UNROLL for (uint j = 0; j < 2; j++) exchanged[64 * i + j] = parts[i / 4][i % 4].thread_elements()[j];
                    }
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
                if (part % (2 * step) == 0) {
                    UNROLL for (uint i = 0; i < 4 * M; i++) {
                        UNROLL for (uint j = 0; j < 2; j++) parts[i / 4][i % 4].thread_elements()[j] += exchanged[64 * i + j];
                    }
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
            if (part == 0) {
                UNROLL for (uint i = 0; i < 4 * M; i++) simdgroup_store(parts[i / 4][i % 4], scores + i / 4 * 8 * score_stride + 32 * half_of + i % 4 * 8, score_stride);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Weights: each simdgroup computes the weights of M pairs.
            for (uint i = M * simdgroup; i < M * simdgroup + M; i++) {
                uint from = first_of(args, sees[i]);
                for (uint block = 0; block < blocks; block++) {
                    float weight = 0;
                    uint start = first + 32 * block, p = start + lane;
                    threadgroup float* score = scores + i * score_stride + 32 * block + lane;
                    if (start < sees[i] && start + 32 > from) {
                        float s = p < sees[i] && p >= from ? *score * args.scale : -INFINITY;
                        float m = split_m[i], l = split_l[i], larger = max(m, simd_max(s)), f = exp(m - larger);
                        weight = exp(s - larger);
                        l = fma(l, f, tree_sum(weight));
                        simdgroup_barrier(mem_flags::mem_threadgroup);  // all lanes have read the split's values before a lane overwrites them
                        if (lane == 0) {
                            by[block * pairs + i] = f;
                            split_m[i] = larger;
                            split_l[i] = l;
                        }
                        simdgroup_barrier(mem_flags::mem_threadgroup);
                    } else if (lane == 0) {
                        by[block * pairs + i] = 1;
                    }
                    *score = weight;
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Values: each simdgroup adds up 8·mine dimensions of the values. A lane stages four
            // values of four keys at a time, and reads the next ones while those before are
            // multiplied.
            threadgroup float* own_values = staged + simdgroup * deep * value_stride;
            uint own_key = lane / across, from_value = lane % across * 4, first_value = simdgroup * mine * 8;
            for (uint block = 0; block < blocks; block++) {
                UNROLL for (uint m = 0; m < M; m++) {
                    float f = by[block * pairs + 8 * m + r];
                    UNROLL for (uint c = 0; c < mine; c++) {
                        UNROLL for (uint j = 0; j < 2; j++) sums[m][c].thread_elements()[j] *= f;
                    }
                }
                typename P::Four v[4];
                UNROLL for (uint i = 0; i < 4; i++) v[i] = P::fetch(values + ulong(rows[32 * block + i * deep / 4 + own_key]) * value_bytes, first_value + from_value, args.value_dim);
                for (uint from = 0; from < 32; from += deep) {
                    threadgroup const float* weights = scores + 32 * block + from;
                    UNROLL for (uint c = 0; c < mine; c += wide) {
                        simdgroup_barrier(mem_flags::mem_threadgroup);
                        UNROLL for (uint i = 0; i < 4; i++) stage_four(P::values(v[i]), own_values + (i * deep / 4 + own_key) * value_stride + from_value);
                        simdgroup_barrier(mem_flags::mem_threadgroup);
                        uint next = c + wide < mine ? from : from + deep;
                        if (next < 32) {
                            uint d = first_value + (c + wide < mine ? 8 * (c + wide) : 0) + from_value;
                            UNROLL for (uint i = 0; i < 4; i++) v[i] = P::fetch(values + ulong(rows[32 * block + next + i * deep / 4 + own_key]) * value_bytes, d, args.value_dim);
                        }
                        if ((simdgroup * mine + c) * 8 < args.value_dim) {
                            for (uint k = 0; k < deep; k += 8) {
                                simdgroup_float8x8 a[M], b;
                                UNROLL for (uint m = 0; m < M; m++) simdgroup_load(a[m], weights + 8 * m * score_stride + k, score_stride);
                                UNROLL for (uint i = 0; i < wide; i++) {
                                    simdgroup_load(b, own_values + k * value_stride + 8 * i, value_stride);
                                    UNROLL for (uint m = 0; m < M; m++) simdgroup_multiply_accumulate(sums[m][c + i], a[m], b, sums[m][c + i]);
                                }
                            }
                        }
                    }
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tid < pairs) {
            float2 f = float2(1.0f, 0.0f);
            if (split < sees[tid] && split + split_keys > first_of(args, sees[tid])) {
                float m = joined_m[tid], l = joined_l[tid];
                f = join(m, l, split_m[tid], split_l[tid]);
                joined_m[tid] = m;
                joined_l[tid] = l;
            }
            join_f[tid] = f.x;
            join_g[tid] = f.y;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        UNROLL for (uint m = 0; m < M; m++) {
            uint i = 8 * m + r, pair = tile.first + i, head = kv_head * per + pair % per;
            if (i < tile.count) {
                device float* to = dst + (tile.row + pair / per) * args.dst_stride + head * args.value_dim;
                float high = joined_m[i], all = joined_l[i], f = join_f[i], g = join_g[i], factor = sink_factor(args, sinks, head, high, all);
                UNROLL for (uint c = 0; c < mine; c++) {
                    UNROLL for (uint j = 0; j < 2; j++) {
                        uint d = (simdgroup * mine + c) * 8 + column + j;
                        if (d < args.value_dim) {
                            float total = fma(split == begin ? 0.0f : to[d], f, sums[m][c].thread_elements()[j] * g);
                            to[d] = split + split_keys < n ? total : total * factor / all;
                        }
                    }
                }
            }
        }
    }
}
