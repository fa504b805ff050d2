// Attention of many rows of a sequence, such as a prompt, with simdgroup matrices. A threadgroup of
// eight simdgroups processes 16 or 32 pairs, each of a row and a query head. All pairs of a
// threadgroup read the keys of the same key head. It takes two blocks of 32 keys at a time.
#include "attention.h"
#include "blocks.h"

// AttentionTile describes consecutive pairs of a sequence. The pairs are numbered row by row.
struct AttentionTile {
    uint row;    // first row of the sequence in the batch
    uint first;  // first pair
    uint count;
};

constant uint key_stride = KEY_STRIDE;  // distance of rows of 32 values of keys in threadgroup memory
constant uint scores_at = SCORES_AT;    // where the scores begin, after the values that are staged

// query_four reads four of a query's n values, from d on. Past its end they are zeros.
inline float4 query_four(device const float* query, uint d, uint n) {
    if (aligned_pages != 0) return d + 4 <= n ? float4(*(device const float4*)(query + d)) : float4(0.0f);
    if (d + 4 <= n) return float4(*(device const packed_float4*)(query + d));
    if (d >= n) return float4(0.0f);
    return float4(query[d], d + 1 < n ? query[d + 1] : 0.0f, d + 2 < n ? query[d + 2] : 0.0f, 0.0f);
}

inline void stage_four(float4 v, threadgroup float* to) { store_four(to, v.x, v.y, v.z, v.w); }

// store_sums writes N rows of matrices, from row First on. The compiler keeps sums in registers in
// the order in which they are written: even columns in odd ones, as in an Aside of CUDA.
template <uint N, uint First, uint I, uint J>
inline void store_sums(thread simdgroup_float8x8 (&sums)[I][J], threadgroup float* to) {
    UNROLL for (uint i = 0; i < N * J; i += 2) {
        uint r = First + i / J, j = i % J;
        store_four(to + 64 * i, sums[r][j].thread_elements()[1], sums[r][j].thread_elements()[0], sums[r][j + 1].thread_elements()[1], sums[r][j + 1].thread_elements()[0]);
    }
}

// swap_halves adds up the sums of two simdgroups. Of its first 2N rows of matrices, a simdgroup
// keeps N: the last ones if last is true, else the first ones. It leaves the others at to, and adds
// those that the other simdgroup leaves at from. The results become the first N rows.
template <uint N, uint I, uint J>
inline void swap_halves(thread simdgroup_float8x8 (&sums)[I][J], bool last, threadgroup float* to, threadgroup const float* from) {
    if (last) {
        store_sums<N, 0>(sums, to);
    } else {
        store_sums<N, N>(sums, to);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    UNROLL for (uint i = 0; i < 2 * N * J; i++) {
        float other = from[128 * (i / 4) + (i ^ 1) % 4];
        thread float& low = sums[i / 2 / J][i / 2 % J].thread_elements()[i % 2];
        float high = sums[N + i / 2 / J][i / 2 % J].thread_elements()[i % 2];
        low = (last ? high : low) + other;
    }
}

// attention_tile supports values of up to 32·C dimensions, of which each simdgroup sums an eighth,
// and 8·M pairs. Between splits, the joined sums are in dst. Grid: (tiles, key heads).
template <typename P, uint C, uint M>
[[max_total_threads_per_threadgroup(512)]] kernel void attention_tile(
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
    uint3 grid [[threadgroups_per_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    constexpr uint pairs = 8 * M, mine = C / 2;           // the simdgroup's matrices of values
    constexpr uint query_stride = pairs + 4, score_stride = pairs + 4;  // floats per dimension of all queries, and per key of all scores
    constexpr uint eight_queries = 8 * query_stride + 4;  // and per eight dimensions, so that few threads write to one bank
    constexpr uint staged_floats = 64 * key_stride + 4 * eight_queries;  // of 32 dimensions of keys and queries
    constexpr uint deep = 64 / mine, value_stride = 8 * mine;  // keys whose values are staged at once, floats per key
    constexpr uint across = 2 * mine;                     // lanes that stage the values of a key, four each
    // The last pairs attend to most positions. They come first, so that no core has the longest
    // tile left when the others are done.
    device const AttentionTile& tile = tiles[grid.x - 1 - group.x];
    uint kv_head = group.y, per = args.heads / args.kv_heads;
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    uint last = tile.row + (tile.first + tile.count - 1) / per;
    uint n = slots[last].position + 1;  // the last row has the highest position
    uint low = first_of(args, slots[tile.row + tile.first / per].position + 1);  // the first position to which any pair attends
    device const int* pages = tables + slots[last].pages;

    threadgroup float* staged = shared;                   // twice [64 keys][key_stride] and [4][eight dimensions][query_stride], parts of scores, or [8][deep][value_stride]
    threadgroup float* scores = staged + scores_at;       // [64 keys][score_stride], then weights
    threadgroup float* by = shared + max(2 * staged_floats, scores_at + 64 * score_stride);  // [2][pairs]
    threadgroup float* split_m = by + 2 * pairs;                // [pairs], as are the next arrays
    threadgroup float* split_l = split_m + pairs;
    threadgroup float* joined_m = split_l + pairs;
    threadgroup float* joined_l = joined_m + pairs;
    threadgroup float* join_f = joined_l + pairs;
    threadgroup float* join_g = join_f + pairs;
    threadgroup uint* sees = (threadgroup uint*)(join_g + pairs);  // [pairs]: position of the pair's row plus 1
    threadgroup uint* rows = sees + pairs;                         // [64]: page rows of two blocks of keys

    // The simdgroup computes one of the four parts of the scores of half of the keys.
    uint part = simdgroup % 4, half_of = simdgroup / 4;
    // The thread stages four values of every 32nd key and, if there are as many pairs, of a query.
    uint own = tid / 8, from_staged = tid % 8 * 4, own_pair = tile.first + min(own, tile.count - 1);
    device const float* query = q + (tile.row + own_pair / per) * args.q_stride + (kv_head * per + own_pair % per) * args.key_dim;
    if (tid < pairs) {
        uint pair = tile.first + min(tid, tile.count - 1);
        sees[tid] = slots[tile.row + pair / per].position + 1;
        joined_m[tid] = -INFINITY;
        joined_l[tid] = 0;
    }
    uint own_query = 64 * key_stride + from_staged / 8 * eight_queries + from_staged % 8 * query_stride + own;
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
        Aside<M, mine> aside;
        uint end = min(split + split_keys, n);
        for (uint first = max(split, low / 32 * 32); first < end; first += 64) {
            uint blocks = first + 32 < end ? 2 : 1;
            aside.set(sums);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (tid < 64) {
                uint p = clamp(first + tid, low, n - 1);  // positions to which no pair attends get weight 0
                rows[tid] = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
            }
            simdgroup_float8x8 parts[4][M];  // keys by pairs
            UNROLL for (uint i = 0; i < 4 * M; i++) parts[i / M][i % M] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Simdgroups may stage 32 dimensions while others multiply those before. The thread
            // reads the next ones before it multiplies.
            uint own_rows[2];
            typename P::Four k[2];
            UNROLL for (uint i = 0; i < 2; i++) {
                own_rows[i] = rows[own + 32 * i];
                k[i] = P::fetch(keys + ulong(own_rows[i]) * key_bytes, from_staged, args.key_dim);
            }
            float4 x = query_four(query, from_staged, args.key_dim);
            for (uint from = 0; from < args.key_dim; from += 64) {
                UNROLL for (uint i = 0; i < 2; i++) {  // the two places in threadgroup memory
                    uint d = from + 32 * i;
                    threadgroup float* next = staged + i * staged_floats;
                    if (d >= args.key_dim) continue;
                    UNROLL for (uint r = 0; r < 2; r++) stage_four(P::values(k[r]), next + (own + 32 * r) * key_stride + from_staged);
                    if (own < pairs) store_down(x, next, own_query, query_stride);
                    threadgroup_barrier(mem_flags::mem_threadgroup);
                    if (d + 32 < args.key_dim) {
                        UNROLL for (uint r = 0; r < 2; r++) k[r] = P::fetch(keys + ulong(own_rows[r]) * key_bytes, d + 32 + from_staged, args.key_dim);
                        x = query_four(query, d + 32 + from_staged, args.key_dim);
                    }
                    if (d + 8 * part < args.key_dim) multiply_block<8>(parts, next + 32 * half_of * key_stride + 8 * part, key_stride, next + 64 * key_stride + part * eight_queries, query_stride);
                }
            }
            // The parts of a score are added: (part 0 + part 1) + (part 2 + part 3). Each of the
            // four simdgroups that have parts of the same scores adds up a quarter of the keys.
            threadgroup float* exchanged = staged + 4 * lane;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            swap_halves<2>(parts, part % 2 != 0, exchanged + 512 * simdgroup, exchanged + 512 * (simdgroup ^ 1));
            threadgroup_barrier(mem_flags::mem_threadgroup);
            swap_halves<1>(parts, part / 2 != 0, exchanged + 512 * simdgroup, exchanged + 512 * (simdgroup ^ 2));
            UNROLL for (uint j = 0; j < M; j++) {
                threadgroup float* score = scores + (32 * half_of + block_row<4, M>(2 * (part % 2) + part / 2, j, lane)) * score_stride + block_column<4, M>(j, lane);
                UNROLL for (uint e = 0; e < 2; e++) score[e] = parts[0][j].thread_elements()[e];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Weights: each simdgroup computes the weights of M pairs, all at once.
            for (uint block = 0; block < blocks; block++) {
                uint start = first + 32 * block, p = start + lane;
                float weights[M], added[M], larger[M];
                UNROLL for (uint m = 0; m < M; m++) {
                    uint i = M * simdgroup + m;
                    float s = p < sees[i] && p >= first_of(args, sees[i]) ? scores[(32 * block + lane) * score_stride + i] * args.scale : -INFINITY;
                    larger[m] = max(split_m[i], simd_max(s));
                    added[m] = weights[m] = exp(s - larger[m]);
                }
                tree_sums<M>(added);
                simdgroup_barrier(mem_flags::mem_threadgroup);  // all lanes have read the split's values before a lane overwrites them
                UNROLL for (uint m = 0; m < M; m++) {
                    uint i = M * simdgroup + m;
                    bool attends = start < sees[i] && start + 32 > first_of(args, sees[i]);
                    scores[(32 * block + lane) * score_stride + i] = attends ? weights[m] : 0.0f;
                }
                float high = larger[0], sum = added[0];  // of the lane's own pair
                UNROLL for (uint m = 1; m < M; m++) {
                    if (lane == m) {
                        high = larger[m];
                        sum = added[m];
                    }
                }
                if (lane < M) {
                    uint i = M * simdgroup + lane;
                    bool attends = start < sees[i] && start + 32 > first_of(args, sees[i]);
                    float f = attends ? exp(split_m[i] - high) : 1.0f;
                    by[block * pairs + i] = f;
                    if (attends) {
                        split_m[i] = high;
                        split_l[i] = fma(split_l[i], f, sum);
                    }
                }
                simdgroup_barrier(mem_flags::mem_threadgroup);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Values: each simdgroup adds up 8·mine dimensions of the values. A lane stages four
            // values of four keys at a time, and reads the next ones while those before are
            // multiplied.
            threadgroup float* own_values = staged + simdgroup * deep * value_stride;
            uint own_key = lane / across, from_value = lane % across * 4, first_value = simdgroup * mine * 8;
            aside.get(sums);
            for (uint block = 0; block < blocks; block++) {
                UNROLL for (uint i = 0; i < 2 * M; i++) {
                    uint m = i / 2, half_row = i % 2 * (mine / 2);
                    float f = by[block * pairs + across_row<M, mine>(m, half_row, lane)];
                    UNROLL for (uint j = 0; j < mine; j++) sums[m][half_row + j / 2].thread_elements()[j % 2] *= f;
                }
                typename P::Four v[4];
                UNROLL for (uint i = 0; i < 4; i++) v[i] = P::fetch(values + ulong(rows[32 * block + i * deep / 4 + own_key]) * value_bytes, first_value + from_value, args.value_dim);
                for (uint from = 0; from < 32; from += deep) {
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    UNROLL for (uint i = 0; i < 4; i++) stage_four(P::values(v[i]), own_values + (i * deep / 4 + own_key) * value_stride + from_value);
                    simdgroup_barrier(mem_flags::mem_threadgroup);
                    if (from + deep < 32) {
                        UNROLL for (uint i = 0; i < 4; i++) v[i] = P::fetch(values + ulong(rows[32 * block + from + deep + i * deep / 4 + own_key]) * value_bytes, first_value + from_value, args.value_dim);
                    }
                    if (first_value < args.value_dim) multiply_across<deep, mine>(sums, scores + (32 * block + from) * score_stride, score_stride, own_values, value_stride, 16);
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
        UNROLL for (uint half_row = 0; half_row < mine; half_row += mine / 2) {
            UNROLL for (uint m = 0; m < M; m++) {
                uint i = across_row<M, mine>(m, half_row, lane), pair = tile.first + i, head = kv_head * per + pair % per;
                if (i < tile.count) {
                    device float* to = dst + (tile.row + pair / per) * args.dst_stride + head * args.value_dim;
                    float high = joined_m[i], all = joined_l[i], f = join_f[i], g = join_g[i], factor = sink_factor(args, sinks, head, high, all);
                    UNROLL for (uint j = 0; j < mine; j++) {
                        uint c = half_row + j / 2, d = simdgroup * mine * 8 + across_column<M, mine>(c, lane) + j % 2;
                        if (d < args.value_dim) {
                            float total = fma(split == begin ? 0.0f : to[d], f, sums[m][c].thread_elements()[j % 2] * g);
                            to[d] = split + split_keys < n ? total : total * factor / all;
                        }
                    }
                }
            }
        }
    }
}
