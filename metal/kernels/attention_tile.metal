// Attention of many rows of a sequence, such as a prompt, with simdgroup matrices. A threadgroup of
// eight simdgroups processes 16 pairs, each of a row and a query head. All pairs of a threadgroup
// read the keys of the same key head. It takes two blocks of 32 keys at a time.
#include "attention.h"

// AttentionTile describes up to 16 pairs of a sequence. The pairs are numbered row by row.
struct AttentionTile {
    uint row;    // first row of the sequence in the batch
    uint first;  // first pair
    uint count;
};

constant uint pairs = ATTENTION_PAIRS;
constant uint stride = TILE_STRIDE;        // distance of rows of 32 values in threadgroup memory
constant uint value_stride = VALUE_STRIDE; // distance of rows of 16 values
constant uint score_stride = SCORE_STRIDE; // distance of rows of 64 scores

// read_eight reads eight of a row's n values, from column d on. Past the end of the row they are
// zeros.
template <typename P>
inline void read_eight(device const uchar* row, uint d, uint n, thread float* v) {
    UNROLL for (uint i = 0; i < 8; i += 4) {
        if (d + i + 4 <= n) {
            float4 four = P::four(row, d + i);
            v[i] = four.x;
            v[i + 1] = four.y;
            v[i + 2] = four.z;
            v[i + 3] = four.w;
        } else {
            UNROLL for (uint j = i; j < i + 4; j++) v[j] = d + j < n ? P::at(row, d + j) : 0.0f;
        }
    }
}

inline void stage_eight(thread const float* v, threadgroup float* to) {
    store_four(to, v[0], v[1], v[2], v[3]);
    store_four(to + 4, v[4], v[5], v[6], v[7]);
}

// attention_tile supports values of up to 32·C dimensions, of which each simdgroup sums an eighth.
// Grid: (tiles, key heads).
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
    constexpr uint mine = C / 2;  // the simdgroup's matrices of values
    device const AttentionTile& tile = tiles[group.x];
    uint kv_head = group.y, per = args.heads / args.kv_heads;
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    uint last = tile.row + (tile.first + tile.count - 1) / per;
    uint n = slots[last].position + 1;  // the last row has the highest position
    uint low = first_of(args, slots[tile.row + tile.first / per].position + 1);  // the first position to which any pair attends
    device const int* pages = tables + slots[last].pages;

    threadgroup float* staged = shared;                   // [2][64 keys and then the pairs][stride], or [8][32][value_stride]
    threadgroup float* scores = staged + 2 * 80 * stride; // [pairs][score_stride], then weights
    threadgroup float* by = scores + pairs * score_stride;      // [2][pairs]
    threadgroup float* split_m = by + 2 * pairs;                // [pairs], as are the next arrays
    threadgroup float* split_l = split_m + pairs;
    threadgroup float* joined_m = split_l + pairs;
    threadgroup float* joined_l = joined_m + pairs;
    threadgroup float* join_f = joined_l + pairs;
    threadgroup float* join_g = join_f + pairs;
    threadgroup uint* sees = (threadgroup uint*)(join_g + pairs);  // [pairs]: position of the pair's row plus 1
    threadgroup uint* rows = sees + pairs;                         // [64]: page rows of two blocks of keys

    // The row of the lane's two elements in an 8 by 8 matrix. Rows are pairs.
    uint r = (lane / 4 & 4) + lane / 2 % 4;
    uint own_pair = tile.first + min(tid / 16, tile.count - 1);  // the pair whose query the thread stages
    device const float* query = q + (tile.row + own_pair / per) * args.q_stride + (kv_head * per + own_pair % per) * args.key_dim;
    if (tid < pairs) {
        uint pair = tile.first + min(tid, tile.count - 1);
        sees[tid] = slots[tile.row + pair / per].position + 1;
        joined_m[tid] = -INFINITY;
        joined_l[tid] = 0;
    }
    simdgroup_float8x8 total[2][mine], sums[2][mine];
    UNROLL for (uint c = 0; c < mine; c++) {
        total[0][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        total[1][c] = total[0][c];
    }
    for (uint split = low / split_keys * split_keys; split < n; split += split_keys) {
        if (tid < pairs) {
            split_m[tid] = -INFINITY;
            split_l[tid] = 0;
        }
        UNROLL for (uint c = 0; c < mine; c++) {
            sums[0][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            sums[1][c] = sums[0][c];
        }
        uint end = min(split + split_keys, n);
        for (uint first = max(split, low / 32 * 32); first < end; first += 64) {
            uint blocks = first + 32 < end ? 2 : 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (tid < 64) {
                uint p = clamp(first + tid, low, n - 1);  // positions to which no pair attends get weight 0
                rows[tid] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
            }
            // Scores: each simdgroup computes the scores of eight keys, in four parts.
            simdgroup_float8x8 parts[2][4], a, b;
            UNROLL for (uint i = 0; i < 4; i++) {
                parts[0][i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
                parts[1][i] = parts[0][i];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // The thread stages eight values of a key and two of a query. It reads the next ones
            // while those before are multiplied, and stages them in the other half of the memory.
            device const uchar* key = keys + ulong(rows[tid / 4]) * key_bytes;
            uint from_key = tid % 4 * 8, from_query = tid % 16 * 2;
            float k[8], x[2];
            read_eight<P>(key, from_key, args.key_dim, k);
            UNROLL for (uint i = 0; i < 2; i++) x[i] = from_query + i < args.key_dim ? query[from_query + i] : 0.0f;
            for (uint d = 0; d < args.key_dim; d += 32) {
                threadgroup float* half_of = staged + d / 32 % 2 * 80 * stride;
                stage_eight(k, half_of + tid / 4 * stride + from_key);
                UNROLL for (uint i = 0; i < 2; i++) half_of[(64 + tid / 16) * stride + from_query + i] = x[i];
                threadgroup_barrier(mem_flags::mem_threadgroup);
                if (d + 32 < args.key_dim) {
                    read_eight<P>(key, d + 32 + from_key, args.key_dim, k);
                    UNROLL for (uint i = 0; i < 2; i++) x[i] = d + 32 + from_query + i < args.key_dim ? query[d + 32 + from_query + i] : 0.0f;
                }
                UNROLL for (uint i = 0; i < 4; i++) {
                    if (d + 8 * i < args.key_dim) {
                        simdgroup_load(b, half_of + simdgroup * 8 * stride + 8 * i, stride, ulong2(0, 0), true);
                        simdgroup_load(a, half_of + 64 * stride + 8 * i, stride);
                        simdgroup_multiply_accumulate(parts[0][i], a, b, parts[0][i]);
                        simdgroup_load(a, half_of + 72 * stride + 8 * i, stride);
                        simdgroup_multiply_accumulate(parts[1][i], a, b, parts[1][i]);
                    }
                }
            }
            UNROLL for (uint i = 0; i < 2; i++) {
                UNROLL for (uint j = 0; j < 2; j++) {
                    parts[i][0].thread_elements()[j] = (parts[i][0].thread_elements()[j] + parts[i][1].thread_elements()[j]) +
                        (parts[i][2].thread_elements()[j] + parts[i][3].thread_elements()[j]);
                }
                simdgroup_store(parts[i][0], scores + 8 * i * score_stride + simdgroup * 8, score_stride);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Weights: each simdgroup computes the weights of two pairs.
            for (uint i = 2 * simdgroup; i < 2 * simdgroup + 2; i++) {
                uint from = first_of(args, sees[i]);
                for (uint block = 0; block < blocks; block++) {
                    float weight = 0;
                    uint begin = first + 32 * block, p = begin + lane;
                    threadgroup float* score = scores + i * score_stride + 32 * block + lane;
                    if (begin < sees[i] && begin + 32 > from) {
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
            // Values: each simdgroup adds up 8·mine dimensions of the values.
            threadgroup float* own = staged + simdgroup * 32 * value_stride;
            for (uint block = 0; block < blocks; block++) {
                float f0 = by[block * pairs + r], f1 = by[block * pairs + 8 + r];
                device const uchar* row = values + ulong(rows[32 * block + lane]) * value_bytes;
                threadgroup const float* weights = scores + 32 * block;
                UNROLL for (uint c = 0; c < mine; c++) {
                    UNROLL for (uint j = 0; j < 2; j++) {
                        sums[0][c].thread_elements()[j] *= f0;
                        sums[1][c].thread_elements()[j] *= f1;
                    }
                }
                float v[16];
                UNROLL for (uint i = 0; i < 16; i += 8) read_eight<P>(row, simdgroup * mine * 8 + i, args.value_dim, v + i);
                UNROLL for (uint c = 0; c < mine; c += 2) {
                    uint d = (simdgroup * mine + c) * 8;
                    if (d < args.value_dim) {
                        simdgroup_barrier(mem_flags::mem_threadgroup);
                        stage_eight(v, own + lane * value_stride);
                        stage_eight(v + 8, own + lane * value_stride + 8);
                        simdgroup_barrier(mem_flags::mem_threadgroup);
                        if (c + 2 < mine) {
                            UNROLL for (uint i = 0; i < 16; i += 8) read_eight<P>(row, d + 16 + i, args.value_dim, v + i);
                        }
                        UNROLL for (uint k = 0; k < 32; k += 8) {
                            simdgroup_float8x8 a1;
                            simdgroup_load(a, weights + k, score_stride);
                            simdgroup_load(a1, weights + 8 * score_stride + k, score_stride);
                            UNROLL for (uint i = 0; i < 2; i++) {
                                simdgroup_load(b, own + k * value_stride + 8 * i, value_stride);
                                simdgroup_multiply_accumulate(sums[0][c + i], a, b, sums[0][c + i]);
                                simdgroup_multiply_accumulate(sums[1][c + i], a1, b, sums[1][c + i]);
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
        UNROLL for (uint c = 0; c < mine; c++) {
            UNROLL for (uint j = 0; j < 2; j++) {
                total[0][c].thread_elements()[j] = fma(total[0][c].thread_elements()[j], join_f[r], sums[0][c].thread_elements()[j] * join_g[r]);
                total[1][c].thread_elements()[j] = fma(total[1][c].thread_elements()[j], join_f[8 + r], sums[1][c].thread_elements()[j] * join_g[8 + r]);
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* own = staged + simdgroup * 32 * value_stride;
    UNROLL for (uint c = 0; c < mine; c += 2) {
        uint d = (simdgroup * mine + c) * 8 + lane % 16;
        if (d - lane % 16 < args.value_dim) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
            UNROLL for (uint i = 0; i < 2; i++) {
                simdgroup_store(total[0][c + i], own + 8 * i, value_stride);
                simdgroup_store(total[1][c + i], own + 8 * value_stride + 8 * i, value_stride);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            for (uint i = lane / 16; i < tile.count; i += 2) {
                uint pair = tile.first + i;
                float l = joined_l[i], m = joined_m[i], f = sink_factor(args, sinks, kv_head * per + pair % per, m, l);
                device float* to = dst + (tile.row + pair / per) * args.dst_stride + (kv_head * per + pair % per) * args.value_dim;
                if (d < args.value_dim) to[d] = own[i * value_stride + lane % 16] * f / l;
            }
        }
    }
}
