// Attention of many rows of a sequence, such as a prompt, with simdgroup matrices. A threadgroup of
// four simdgroups processes 16 pairs, each of a row and a query head. All pairs of a threadgroup
// read the keys of the same key head.
#include "attention.h"

// AttentionTile describes up to 16 pairs of a sequence. The pairs are numbered row by row.
struct AttentionTile {
    uint row;    // first row of the sequence in the batch
    uint first;  // first pair
    uint count;
};

constant uint pairs = ATTENTION_PAIRS;
constant uint stride = TILE_STRIDE;  // distance of rows of 32 values in threadgroup memory

// stage_eight copies eight of a row's n values, from column d on. Past the end of the row it writes
// zeros.
template <typename P>
inline void stage_eight(device const uchar* row, uint d, uint n, threadgroup float* to) {
    UNROLL for (uint i = 0; i < 8; i += 4) {
        if (d + i + 4 <= n) {
            float4 v = P::four(row, d + i);
            to[i] = v.x;
            to[i + 1] = v.y;
            to[i + 2] = v.z;
            to[i + 3] = v.w;
        } else {
            for (uint j = i; j < i + 4; j++) to[j] = d + j < n ? P::at(row, d + j) : 0.0f;
        }
    }
}

// attention_tile supports values of up to 32·C dimensions. Grid: (tiles, key heads).
template <typename P, uint C>
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
    device const AttentionTile& tile = tiles[group.x];
    uint kv_head = group.y, per = args.heads / args.kv_heads;
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    uint last = tile.row + (tile.first + tile.count - 1) / per;
    uint n = slots[last].position + 1;  // the last row has the highest position
    uint low = first_of(args, slots[tile.row + tile.first / per].position + 1);  // the first position to which any pair attends
    device const int* pages = tables + slots[last].pages;

    threadgroup float* staged = shared;                         // [4][32][stride]
    threadgroup float* scores = staged + 4 * 32 * stride;       // [pairs][stride], then weights
    threadgroup float* by = scores + pairs * stride;            // [pairs], as are the next arrays
    threadgroup float* split_m = by + pairs;
    threadgroup float* split_l = split_m + pairs;
    threadgroup float* joined_m = split_l + pairs;
    threadgroup float* joined_l = joined_m + pairs;
    threadgroup float* join_f = joined_l + pairs;
    threadgroup float* join_g = join_f + pairs;
    threadgroup uint* sees = (threadgroup uint*)(join_g + pairs);  // [pairs]: position of the pair's row plus 1
    threadgroup uint* rows = sees + pairs;                         // [32]: page rows of a block of keys

    // The row of the lane's two elements in an 8 by 8 matrix. Rows are pairs.
    uint r = (lane / 4 & 4) + lane / 2 % 4;
    if (tid < pairs) {
        uint pair = tile.first + min(tid, tile.count - 1);
        sees[tid] = slots[tile.row + pair / per].position + 1;
        joined_m[tid] = -INFINITY;
        joined_l[tid] = 0;
    }
    simdgroup_float8x8 total[2][C], sums[2][C];
    UNROLL for (uint c = 0; c < C; c++) {
        total[0][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        total[1][c] = total[0][c];
    }
    for (uint split = low / split_keys * split_keys; split < n; split += split_keys) {
        if (tid < pairs) {
            split_m[tid] = -INFINITY;
            split_l[tid] = 0;
        }
        UNROLL for (uint c = 0; c < C; c++) {
            sums[0][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            sums[1][c] = sums[0][c];
        }
        for (uint first = max(split, low / 32 * 32); first < min(split + split_keys, n); first += 32) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (simdgroup == 0) {
                uint p = clamp(first + lane, low, n - 1);  // positions to which no pair attends get weight 0
                rows[lane] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
            }
            // Scores: each simdgroup computes the scores of eight keys.
            simdgroup_float8x8 s0 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), s1 = s0, a, b;
            for (uint d = 0; d < args.key_dim; d += 32) {
                threadgroup_barrier(mem_flags::mem_threadgroup);
                uint pair = tile.first + min(tid / 8, tile.count - 1);
                device const float* query = q + (tile.row + pair / per) * args.q_stride + (kv_head * per + pair % per) * args.key_dim;
                UNROLL for (uint i = 0; i < 4; i++) {
                    uint col = d + tid % 8 * 4 + i;
                    staged[(32 + tid / 8) * stride + tid % 8 * 4 + i] = col < args.key_dim ? query[col] : 0.0f;
                }
                stage_eight<P>(keys + ulong(rows[tid / 4]) * key_bytes, d + tid % 4 * 8, args.key_dim, staged + tid / 4 * stride + tid % 4 * 8);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint k = 0; k < min(32u, args.key_dim - d); k += 8) {
                    simdgroup_load(b, staged + simdgroup * 8 * stride + k, stride, ulong2(0, 0), true);
                    simdgroup_load(a, staged + 32 * stride + k, stride);
                    simdgroup_multiply_accumulate(s0, a, b, s0);
                    simdgroup_load(a, staged + 40 * stride + k, stride);
                    simdgroup_multiply_accumulate(s1, a, b, s1);
                }
            }
            simdgroup_store(s0, scores + simdgroup * 8, stride);
            simdgroup_store(s1, scores + 8 * stride + simdgroup * 8, stride);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Weights: each simdgroup computes the weights of four pairs.
            for (uint i = 4 * simdgroup; i < 4 * simdgroup + 4; i++) {
                float weight = 0;
                uint from = first_of(args, sees[i]);
                if (first < sees[i] && first + 32 > from) {
                    float score = first + lane < sees[i] && first + lane >= from ? scores[i * stride + lane] * args.scale : -INFINITY;
                    float m = split_m[i], l = split_l[i], larger = max(m, simd_max(score)), f = exp(m - larger);
                    weight = exp(score - larger);
                    l = fma(l, f, tree_sum(weight));
                    simdgroup_barrier(mem_flags::mem_threadgroup);  // all lanes have read the split's values before a lane overwrites them
                    if (lane == 0) {
                        by[i] = f;
                        split_m[i] = larger;
                        split_l[i] = l;
                    }
                } else if (lane == 0) {
                    by[i] = 1;
                }
                scores[i * stride + lane] = weight;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Values: each simdgroup adds up 8·C dimensions of the values.
            UNROLL for (uint c = 0; c < C; c++) {
                UNROLL for (uint j = 0; j < 2; j++) {
                    sums[0][c].thread_elements()[j] *= by[r];
                    sums[1][c].thread_elements()[j] *= by[8 + r];
                }
            }
            threadgroup float* own = staged + simdgroup * 32 * stride;
            UNROLL for (uint c = 0; c < C; c += 4) {
                uint d = (simdgroup * C + c) * 8;
                if (d < args.value_dim) {
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    UNROLL for (uint i = 0; i < 32; i += 8) stage_eight<P>(values + ulong(rows[lane]) * value_bytes, d + i, args.value_dim, own + lane * stride + i);
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    UNROLL for (uint k = 0; k < 32; k += 8) {
                        simdgroup_float8x8 a1;
                        simdgroup_load(a, scores + k, stride);
                        simdgroup_load(a1, scores + 8 * stride + k, stride);
                        UNROLL for (uint i = 0; i < 4; i++) {
                            simdgroup_load(b, own + k * stride + 8 * i, stride);
                            simdgroup_multiply_accumulate(sums[0][c + i], a, b, sums[0][c + i]);
                            simdgroup_multiply_accumulate(sums[1][c + i], a1, b, sums[1][c + i]);
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
        UNROLL for (uint c = 0; c < C; c++) {
            UNROLL for (uint j = 0; j < 2; j++) {
                total[0][c].thread_elements()[j] = fma(total[0][c].thread_elements()[j], join_f[r], sums[0][c].thread_elements()[j] * join_g[r]);
                total[1][c].thread_elements()[j] = fma(total[1][c].thread_elements()[j], join_f[8 + r], sums[1][c].thread_elements()[j] * join_g[8 + r]);
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* own = staged + simdgroup * 32 * stride;
    UNROLL for (uint c = 0; c < C; c += 4) {
        uint d = (simdgroup * C + c) * 8;
        if (d < args.value_dim) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
            UNROLL for (uint i = 0; i < 4; i++) {
                simdgroup_store(total[0][c + i], own + 8 * i, stride);
                simdgroup_store(total[1][c + i], own + 8 * stride + 8 * i, stride);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            for (uint i = 0; i < tile.count; i++) {
                uint pair = tile.first + i;
                float l = joined_l[i], m = joined_m[i], f = sink_factor(args, sinks, kv_head * per + pair % per, m, l);
                device float* to = dst + (tile.row + pair / per) * args.dst_stride + (kv_head * per + pair % per) * args.value_dim;
                if (d + lane < args.value_dim) to[d + lane] = own[i * stride + lane] * f / l;
            }
        }
    }
}
