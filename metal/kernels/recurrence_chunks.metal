// Recurrent layers on prompts, in chunks of 64 rows. chunk_prepare computes what does not depend on
// the state, for all chunks at once, and chunk_pass passes over the chunks of a sequence.
//
// With S the matrix before a chunk, A_ij = β_i·(k_i·k_j)·e^{G_i-G_j} for j < i, and T = (1+A)⁻¹,
// the changes of a chunk by the delta rule are u = T·β·(v - e^G·Sᵀk). Queries and keys are not
// normalised before they are multiplied: the factors of their lengths are applied to the products.
// The scan's values are not multiplied by δ, but their other factors are.
#include "recurrence.h"

constant uint chunk_rows = CHUNK_ROWS;      // 64; the division of the work among threads depends on it
constant uint state_keys = STATE_KEYS;      // 128
constant uint state_cols = STATE_COLS;      // 32: columns of a matrix per threadgroup of chunk_pass
constant uint chunk_values = CHUNK_VALUES;  // values in scratch memory per chunk and head
constant uint stage_stride = 12;            // distance of rows of 8 values in threadgroup memory
constant uint wide_stride = 20;             // distance of rows of 16 values
constant uint row_stride = STATE_KEYS + 4;  // distance of rows of keys
constant uint square_stride = 68;           // distance of rows of 64 values

// A chunk's values in scratch memory are T·β [64][64], which the scan does not have, and the scores
// (q_i·k_j)·e^{G_i-G_j} [64][64], both lower triangles, in which the blocks of 16 columns above the
// diagonal are not set. Then follow factors [64] of the products of keys with the state, of queries
// with the state, and of keys with the changes, and the factor of the state.
constant uint scores_at = 4096, key_factors = 8192, query_factors = 8256, change_factors = 8320, state_factor = 8384;

// ChunkTile is a chunk of a sequence.
struct ChunkTile {
    uint row;   // first row in the batch
    uint rows;  // number of rows; the others, up to 64, count as rows that change nothing
};

// fetch_keys reads eight columns of the keys and of the queries of a chunk, whose first key and
// query are at k and q, or only of the queries. A thread has every 16th row of a column.
inline void fetch_keys(device const float* q, device const float* k, bool both, constant RecurrenceArgs& args, uint rows, uint first, uint tid, thread float* v) {
    uint col = first + tid % 8;
    UNROLL for (uint i = 0; i < 4; i++) {
        uint row = tid / 8 + 16 * i;
        bool inside = row < rows && col < args.key_dim;
        v[i] = both && inside ? k[row * args.stride + col] : 0.0f;
        v[4 + i] = inside ? q[row * args.stride + col] : 0.0f;
    }
}

// stage_keys writes what fetch_keys has read to rows of threadgroup memory: keys, then queries.
inline void stage_keys(thread const float* v, uint tid, threadgroup float* stage) {
    UNROLL for (uint i = 0; i < 8; i++) stage[(tid / 8 + 16 * i) * stage_stride + tid % 8] = v[i];
}

// chunk_prepare computes a chunk's values in scratch memory; see above. A thread computes the
// products of every 16th key and query with every eighth key. Grid: (chunks, heads), 128 threads.
template <uint R>
kernel void chunk_prepare(
    device const float* qkv [[buffer(0)]],
    device const float* gates [[buffer(1)]],
    device const float* decay [[buffer(2)]],
    device const float* bias [[buffer(3)]],
    device const ChunkTile* chunks [[buffer(4)]],
    device float* scratch [[buffer(5)]],
    constant RecurrenceArgs& args [[buffer(6)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    threadgroup float* stage = shared;                        // [128][stage_stride]
    threadgroup float* square = stage + 128 * stage_stride;   // [64][square_stride]: A, then its inverse
    threadgroup float* betas = square + 64 * square_stride;   // [64], as are the next arrays; the scan's δ
    threadgroup float* decays = betas + 64;                   // logarithms
    threadgroup float* upto = decays + 64;                    // sums of the decays of a row and of those before it in its 16 rows
    threadgroup float* after = upto + 64;                     // sums of the decays of the rows after it in its 16 rows
    threadgroup float* key_scales = after + 64;               // [128] factors of keys, then of queries: those that give them length 1, or the scan's δ and 1

    device const ChunkTile& chunk = chunks[group.x];
    uint head = group.y, rows = chunk.rows, ti = tid / 8, tj = tid % 8;
    bool delta = R == delta_rule;
    device const float* q = qkv + chunk.row * args.stride + args.queries + key_head(args, head) * args.key_dim;
    device const float* k = qkv + chunk.row * args.stride + args.keys + key_head(args, head) * args.key_dim;
    device float* to = scratch + (ulong(group.x) * args.heads + head) * chunk_values;
    float next[8], squares[8];
    fetch_keys(q, k, true, args, rows, 0, tid, next);
    if (tid < chunk_rows) {
        device const float* gate = gates + (chunk.row + min(tid, rows - 1)) * args.gate_stride + head;
        float step = softplus(gate[delta ? args.heads : 0] + bias[head]);
        betas[tid] = tid >= rows ? 0.0f : delta ? sigmoid(gate[0]) : step;
        decays[tid] = tid < rows ? decay[head] * step : 0.0f;
    }
    float by_keys[4][8], by_queries[4][8];
    UNROLL for (uint i = 0; i < 8; i++) {
        squares[i] = 0;
        UNROLL for (uint r = 0; r < 4; r++) by_keys[r][i] = by_queries[r][i] = 0;
    }
    for (uint first = 0; first < args.key_dim; first += 8) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        stage_keys(next, tid, stage);
        UNROLL for (uint i = 0; i < 8; i++) squares[i] = fma(next[i], next[i], squares[i]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (first + 8 < args.key_dim) fetch_keys(q, k, true, args, rows, first + 8, tid, next);
        UNROLL for (uint d = 0; d < 8; d += 4) {
            float4 key[4], query[4];
            UNROLL for (uint r = 0; r < 4; r++) {
                key[r] = four_at(stage + (ti + 16 * r) * stage_stride + d);
                query[r] = four_at(stage + (64 + ti + 16 * r) * stage_stride + d);
            }
            UNROLL for (uint c = 0; c < 8; c++) {
                float4 other = four_at(stage + (tj + 8 * c) * stage_stride + d);
                UNROLL for (uint r = 0; r < 4; r++) {
                    if (c <= 2 * r + 1) {  // other blocks are above the diagonal
                        if (delta) by_keys[r][c] = add_four(key[r], other, by_keys[r][c]);
                        by_queries[r][c] = add_four(query[r], other, by_queries[r][c]);
                    }
                }
            }
        }
    }
    UNROLL for (uint i = 0; i < 8; i++) {
        float sum = squares[i];
        sum += simd_shuffle_xor(sum, 4);
        sum += simd_shuffle_xor(sum, 2);
        sum += simd_shuffle_xor(sum, 1);
        if (tj == 0) key_scales[ti + 16 * i] = delta ? rsqrt(sum + args.eps) : i < 4 ? betas[ti + 16 * i] : 1.0f;
    }
    if (tid < chunk_rows) {
        float sum = 0, rest = 0;
        for (uint i = 0; i < 16; i++) {
            float v = decays[tid / 16 * 16 + i];
            sum += i <= tid % 16 ? v : 0.0f;
            rest += i <= tid % 16 ? 0.0f : v;
        }
        upto[tid] = sum;
        after[tid] = rest;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float all[4];  // sums of the decays of 16 rows
    UNROLL for (uint r = 0; r < 4; r++) all[r] = upto[16 * r + 15];
    float length = delta ? rsqrt(float(args.key_dim)) : 1.0f;
    UNROLL for (uint r = 0; r < 4; r++) {
        uint i = ti + 16 * r;
        float key_scale = key_scales[i], query_scale = key_scales[64 + i] * length, sum = upto[i], beta = betas[i];
        UNROLL for (uint c = 0; c < 8; c++) {
            if (c <= 2 * r + 1) {
                // The sum of the decays after row j up to row i is not a difference of two sums,
                // which would round as large numbers do.
                uint j = tj + 8 * c;
                float between = 0;
                if (c / 2 == r) {
                    for (uint m = j + 1; m <= i; m++) between += decays[m];
                } else {
                    UNROLL for (uint block = 0; block < 4; block++) {
                        if (block > c / 2 && block < r) between += all[block];
                    }
                    between += sum + after[j];
                }
                float factor = j <= i ? exp(between) * key_scales[j] : 0.0f;
                if (delta) square[i * square_stride + j] = j < i ? by_keys[r][c] * key_scale * beta * factor : 0.0f;
                to[scores_at + 64 * i + j] = j <= i ? by_queries[r][c] * query_scale * factor : 0.0f;
            }
        }
    }
    if (tid < chunk_rows) {
        float before = upto[tid], rest = after[tid];
        UNROLL for (uint block = 0; block < 4; block++) {
            if (block < tid / 16) before += all[block];
            if (block > tid / 16) rest += all[block];
        }
        float grown = exp(before);
        to[key_factors + tid] = grown * key_scales[tid];
        to[query_factors + tid] = grown * key_scales[64 + tid] * length;
        to[change_factors + tid] = exp(rest) * key_scales[tid];
        if (tid == 0) to[state_factor] = exp((all[0] + all[1]) + (all[2] + all[3]));
    }
    if (!delta) return;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // The inverse of 1+A, [[T₁, 0], [T₂₁, T₂]] with blocks of 32 by 32. The first two simdgroups
    // invert the blocks on the diagonal, a column per lane. Then T₂₁ = -T₂·(A₂₁·T₁).
    if (simdgroup < 2) {
        threadgroup float* block = square + simdgroup * 32 * (square_stride + 1);
        float column[32];
        UNROLL for (uint i = 0; i < 32; i++) {
            float4 strands = float4(0.0f, 0.0f, 0.0f, 0.0f);
            UNROLL for (uint m = 0; m < 32; m += 4) {
                if (m < i) {
                    float4 row = four_at(block + i * square_stride + m);
                    strands.x = fma(row.x, column[m], strands.x);
                    if (m + 1 < i) strands.y = fma(row.y, column[m + 1], strands.y);
                    if (m + 2 < i) strands.z = fma(row.z, column[m + 2], strands.z);
                    if (m + 3 < i) strands.w = fma(row.w, column[m + 3], strands.w);
                }
            }
            column[i] = (i == lane ? 1.0f : 0.0f) - ((strands.x + strands.y) + (strands.z + strands.w));
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        UNROLL for (uint i = 0; i < 32; i++) block[i * square_stride + lane] = column[i];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* corner = square + 32 * square_stride;
    for (uint part = 0; part < 2; part++) {  // A₂₁·T₁, then T₂ times the result
        threadgroup const float* left = part == 0 ? corner : corner + 32;
        threadgroup const float* right = part == 0 ? square : corner;
        float product[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        for (uint m = 0; m < 32; m += 4) {
            float4 x0 = four_at(left + ti * square_stride + m), x1 = four_at(left + (ti + 16) * square_stride + m);
            float4 y = four_at(right + m * square_stride + 4 * tj);
            add_scaled(product[0], x0.x, y);
            add_scaled(product[1], x1.x, y);
            y = four_at(right + (m + 1) * square_stride + 4 * tj);
            add_scaled(product[0], x0.y, y);
            add_scaled(product[1], x1.y, y);
            y = four_at(right + (m + 2) * square_stride + 4 * tj);
            add_scaled(product[0], x0.z, y);
            add_scaled(product[1], x1.z, y);
            y = four_at(right + (m + 3) * square_stride + 4 * tj);
            add_scaled(product[0], x0.w, y);
            add_scaled(product[1], x1.w, y);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sign = part == 0 ? 1.0f : -1.0f;
        UNROLL for (uint r = 0; r < 2; r++) {
            store_four(corner + (ti + 16 * r) * square_stride + 4 * tj, sign * product[r][0], sign * product[r][1], sign * product[r][2], sign * product[r][3]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint i = tid; i < 4096; i += 128) {
        uint row = i / 64, col = i % 64;
        if (col / 16 <= row / 16) to[i] = square[row * square_stride + col] * betas[col];
    }
}

// fetch_square reads 16 columns of a matrix of 64 by 64 in scratch memory, and stage_square writes
// them to threadgroup memory.
inline void fetch_square(device const float* square, uint first, uint tid, thread float* v) {
    UNROLL for (uint i = 0; i < 2; i++) {
        float4 four = *(device const float4*)(square + (tid / 4 + 32 * i) * 64 + first + tid % 4 * 4);
        v[4 * i] = four.x;
        v[4 * i + 1] = four.y;
        v[4 * i + 2] = four.z;
        v[4 * i + 3] = four.w;
    }
}
inline void stage_square(thread const float* v, uint tid, threadgroup float* stage) {
    UNROLL for (uint i = 0; i < 2; i++) {
        store_four(stage + (tid / 4 + 32 * i) * wide_stride + tid % 4 * 4, v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
    }
}

// multiply_square adds the product of a lower triangle in scratch memory with the rows x to a
// thread's sums: every 16th row, four columns. v has the triangle's first columns; see
// fetch_square. All threads have passed a barrier since the last use of stage when it returns.
inline void multiply_square(device const float* square, threadgroup const float* x, thread float* v, threadgroup float* stage, uint tid, thread float* sums) {
    uint ti = tid / 8, tj = tid % 8;
    for (uint part = 0; part < 4; part++) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        stage_square(v, tid, stage);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (part < 3) fetch_square(square, 16 * part + 16, tid, v);
        UNROLL for (uint d = 0; d < 16; d += 4) {
            threadgroup const float* rows = x + (16 * part + d) * state_cols + 4 * tj;
            float4 b0 = four_at(rows), b1 = four_at(rows + state_cols), b2 = four_at(rows + 2 * state_cols), b3 = four_at(rows + 3 * state_cols);
            UNROLL for (uint r = 0; r < 4; r++) {
                if (r >= part) {
                    float4 a = four_at(stage + (ti + 16 * r) * wide_stride + d);
                    add_scaled(sums + 4 * r, a.x, b0);
                    add_scaled(sums + 4 * r, a.y, b1);
                    add_scaled(sums + 4 * r, a.z, b2);
                    add_scaled(sums + 4 * r, a.w, b3);
                }
            }
        }
    }
}

// fetch_rows reads eight rows of keys and multiplies each by its factor. A thread has every 16th
// value of a row.
inline void fetch_rows(device const float* k, device const float* factors, constant RecurrenceArgs& args, uint rows, uint first, uint tid, thread float* v) {
    uint row = first + tid / 16;
    UNROLL for (uint i = 0; i < 8; i++) {
        uint col = tid % 16 + 16 * i;
        v[i] = row < rows && col < args.key_dim ? k[row * args.stride + col] * factors[row] : 0.0f;
    }
}

// chunk_pass passes over the chunks of a sequence with 32 columns of a matrix in threadgroup
// memory. Grid: (columns / 32, heads, list entries), 128 threads.
template <uint R>
kernel void chunk_pass(
    device const float* qkv [[buffer(0)]],
    device const StateSlot* slots [[buffer(1)]],
    device const float* scratch [[buffer(2)]],
    device float* matrices [[buffer(3)]],
    device const float* logs [[buffer(4)]],
    device const float* skip [[buffer(5)]],
    device float* dst [[buffer(6)]],
    constant RecurrenceArgs& args [[buffer(7)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    bool delta = R == delta_rule;
    threadgroup float* state = shared;                       // [state_keys][state_cols]
    threadgroup float* x = state + state_keys * state_cols;  // [64][state_cols]: what is left of the values, then the changes
    threadgroup float* stage = x + 64 * state_cols;          // [64][wide_stride] or [8][row_stride]
    threadgroup float* pair = x;                             // [2][128][stage_stride] of keys and queries, before x is written

    device const StateSlot& at = slots[group.z];
    uint head = group.y, ti = tid / 8, tj = tid % 8, first_col = group.x * state_cols, col = first_col + 4 * tj;
    ulong size = ulong(args.key_dim) * args.value_dim;
    device const float* from = matrices + (ulong(max(at.from, 0)) * args.heads + head) * size;
    // A thread has the same values of the state here and when the state changes: eight rows of four
    // columns.
    UNROLL for (uint i = 0; i < 8; i++) {
        uint key = 8 * ti + i;
        float v[4];
        UNROLL for (uint j = 0; j < 4; j++) v[j] = at.from >= 0 && key < args.key_dim && col + j < args.value_dim ? from[key * args.value_dim + col + j] : 0.0f;
        for (uint r = 0; r < at.accepted; r++) {
            device const float* entry = logs + log_row(args, uint(at.from), r, head);
            float factor = entry[args.key_dim + args.value_dim], k = key < args.key_dim ? entry[key] : 0.0f;
            UNROLL for (uint j = 0; j < 4; j++) v[j] = fma(k, col + j < args.value_dim ? entry[args.key_dim + col + j] : 0.0f, v[j] * factor);
        }
        store_four(state + key * state_cols + 4 * tj, v[0], v[1], v[2], v[3]);
    }
    device const float* q = qkv + at.row * args.stride + args.queries + key_head(args, head) * args.key_dim;
    device const float* k = qkv + at.row * args.stride + args.keys + key_head(args, head) * args.key_dim;
    device const float* values = qkv + at.row * args.stride + args.values + head * args.value_dim;
    dst += at.row * args.dst_stride + head * args.value_dim;
    device const float* chunk = scratch + (ulong(at.before) * args.heads + head) * chunk_values;
    float next[8];
    fetch_keys(q, k, delta, args, at.rows, 0, tid, next);
    for (uint left = at.rows; left > 0;) {
        uint rows = min(left, chunk_rows);
        // The products of keys and queries with the state.
        float sums[16], by_queries[16];
        UNROLL for (uint i = 0; i < 16; i++) sums[i] = by_queries[i] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint first = 0; first < args.key_dim; first += 8) {
            // Columns are staged in one half of the memory while others may still be read in the
            // other half.
            threadgroup float* columns = pair + first / 8 % 2 * 128 * stage_stride;
            stage_keys(next, tid, columns);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (first + 8 < args.key_dim) {
                fetch_keys(q, k, delta, args, rows, first + 8, tid, next);
            } else {
                fetch_square(delta ? chunk : chunk + scores_at, 0, tid, next);
            }
            UNROLL for (uint d = 0; d < 8; d += 4) {
                threadgroup const float* by = state + (first + d) * state_cols + 4 * tj;
                float4 b0 = four_at(by), b1 = four_at(by + state_cols), b2 = four_at(by + 2 * state_cols), b3 = four_at(by + 3 * state_cols);
                UNROLL for (uint r = 0; r < 4; r++) {
                    if (delta) {
                        float4 a = four_at(columns + (ti + 16 * r) * stage_stride + d);
                        add_scaled(sums + 4 * r, a.x, b0);
                        add_scaled(sums + 4 * r, a.y, b1);
                        add_scaled(sums + 4 * r, a.z, b2);
                        add_scaled(sums + 4 * r, a.w, b3);
                    }
                    float4 a = four_at(columns + (64 + ti + 16 * r) * stage_stride + d);
                    add_scaled(by_queries + 4 * r, a.x, b0);
                    add_scaled(by_queries + 4 * r, a.y, b1);
                    add_scaled(by_queries + 4 * r, a.z, b2);
                    add_scaled(by_queries + 4 * r, a.w, b3);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        UNROLL for (uint r = 0; r < 4; r++) {
            uint row = ti + 16 * r;
            float key_factor = delta ? chunk[key_factors + row] : 0.0f, query_factor = chunk[query_factors + row];
            float v[4];
            UNROLL for (uint j = 0; j < 4; j++) {
                float value = row < rows && col + j < args.value_dim ? values[row * args.stride + col + j] : 0.0f;
                v[j] = delta ? value - key_factor * sums[4 * r + j] : value;
                by_queries[4 * r + j] *= query_factor;
                sums[4 * r + j] = 0;
            }
            store_four(x + row * state_cols + 4 * tj, v[0], v[1], v[2], v[3]);
        }
        if (delta) {
            multiply_square(chunk, x, next, stage, tid, sums);
            fetch_square(chunk + scores_at, 0, tid, next);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            UNROLL for (uint r = 0; r < 4; r++) store_four(x + (ti + 16 * r) * state_cols + 4 * tj, sums[4 * r], sums[4 * r + 1], sums[4 * r + 2], sums[4 * r + 3]);
        }
        multiply_square(chunk + scores_at, x, next, stage, tid, by_queries);
        fetch_rows(k, chunk + change_factors, args, rows, 0, tid, next);
        UNROLL for (uint r = 0; r < 4; r++) {
            uint row = ti + 16 * r;
            UNROLL for (uint j = 0; j < 4; j++) {
                float result = delta ? by_queries[4 * r + j] : fma(skip[head], x[row * state_cols + 4 * tj + j], by_queries[4 * r + j]);
                if (row < rows && col + j < args.value_dim) dst[row * args.dst_stride + col + j] = result;
            }
        }
        // The changes of the state. A thread has eight rows of four columns.
        float factor = chunk[state_factor], changed[32];
        UNROLL for (uint i = 0; i < 8; i++) {
            float4 old = four_at(state + (8 * ti + i) * state_cols + 4 * tj);
            changed[4 * i] = old.x * factor;
            changed[4 * i + 1] = old.y * factor;
            changed[4 * i + 2] = old.z * factor;
            changed[4 * i + 3] = old.w * factor;
        }
        left -= rows;
        for (uint first = 0; first < chunk_rows; first += 8) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            UNROLL for (uint i = 0; i < 8; i++) stage[tid / 16 * row_stride + tid % 16 + 16 * i] = next[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (first + 8 < chunk_rows) {
                fetch_rows(k, chunk + change_factors, args, rows, first + 8, tid, next);
            } else if (left > 0) {
                fetch_keys(q + chunk_rows * args.stride, k + chunk_rows * args.stride, delta, args, left, 0, tid, next);
            }
            UNROLL for (uint i = 0; i < 8; i++) {
                float4 b = four_at(x + (first + i) * state_cols + 4 * tj);
                float4 low = four_at(stage + i * row_stride + 8 * ti), high = four_at(stage + i * row_stride + 8 * ti + 4);
                add_scaled(changed, low.x, b);
                add_scaled(changed + 4, low.y, b);
                add_scaled(changed + 8, low.z, b);
                add_scaled(changed + 12, low.w, b);
                add_scaled(changed + 16, high.x, b);
                add_scaled(changed + 20, high.y, b);
                add_scaled(changed + 24, high.z, b);
                add_scaled(changed + 28, high.w, b);
            }
        }
        UNROLL for (uint i = 0; i < 8; i++) {
            store_four(state + (8 * ti + i) * state_cols + 4 * tj, changed[4 * i], changed[4 * i + 1], changed[4 * i + 2], changed[4 * i + 3]);
        }
        q += chunk_rows * args.stride;
        k += chunk_rows * args.stride;
        values += chunk_rows * args.stride;
        dst += chunk_rows * args.dst_stride;
        chunk += args.heads * chunk_values;
    }
    device float* to = matrices + (ulong(at.to) * args.heads + head) * size;
    UNROLL for (uint i = 0; i < 8; i++) {
        UNROLL for (uint j = 0; j < 4; j++) {
            uint key = 8 * ti + i;
            if (key < args.key_dim && col + j < args.value_dim) to[key * args.value_dim + col + j] = state[key * state_cols + 4 * tj + j];
        }
    }
}

#define CHUNKS(rule, name) \
    INSTANTIATE(name "_prepare", chunk_prepare, rule) \
    INSTANTIATE(name "_chunks", chunk_pass, rule)
CHUNKS(delta_rule, "delta")
CHUNKS(scan_rule, "scan")
