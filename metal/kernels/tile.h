// Products of many rows: a threadgroup multiplies a tile of rows of weights with a tile of rows of
// activations. Each simdgroup computes 16 by 16 results.
//
// The results have the same bits as those of the function products (quants.h). There, lane s of a
// simdgroup sums strand s: the chunks s, s+32, s+64 and so on. A tree adds the lanes. Here, a
// simdgroup sums one strand after another, in the order in which the tree pairs them. A sum is
// stored, at its level of the tree, until the other sum of its pair is computed. Level k holds a
// sum if bit k of the number of finished strands is 1.
#include "quants.h"

// plain_tiles is 1 if simdgroup matrices are not used. Matrices are faster, but Metal does not
// specify the order of their sums. When the backend starts, it compares results with and without
// matrices, and uses matrices if the bits agree.
CONSTANT(uint, plain_tiles, 0)
CONSTANT(uint, tile_rows, 1)    // rows of weights: 32 or 64
CONSTANT(uint, tile_inputs, 2)  // rows of activations: 32 or 64

constant uint tile_stride = TILE_STRIDE;  // floats per row in threadgroup memory, which has tile_rows+tile_inputs rows

inline uint tile_threads() { return tile_rows * tile_inputs / 8; }

// tile_weight returns the row of the tile's weights that thread tid loads, or the last row if the
// thread loads activations.
inline uint tile_weight(uint tid) { return min(tid / 2, tile_rows - 1); }

// tile_input returns the row of activations, among the first count ones, that thread tid loads, or
// 0 if the thread loads weights.
inline uint tile_input(uint tid, uint count) { return tid / 2 < tile_rows ? 0 : min(tid / 2 - tile_rows, count - 1); }

// tile_result returns the index in shared at which tile leaves the product of a row of activations
// and a row of weights.
inline uint tile_result(uint input, uint weight) { return input * (tile_rows + 4) + weight; }

// strand_of returns the i-th strand in the order of the tree: the five bits of i reversed.
inline uint strand_of(uint i) {
    return (i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | (i & 16) >> 4;
}

// tile computes the products of a tile and leaves them in shared; see tile_result. Two threads load
// each row: the first threads load rows of weights, the others rows of activations. w_row and x_row
// are the rows that tile_weight and tile_input return for the thread. All threads of the
// threadgroup must call tile. It ends with a barrier.
template <typename W>
inline void tile(device const uchar* w_row, device const float* x_row, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    uint weights = tile_rows, bringing = weights + tile_inputs, plain = plain_tiles, across = weights / 16;
    threadgroup float* stage = shared + tid / 2 * tile_stride + 16 * (tid & 1);
    threadgroup const float* a = shared + (weights + 16 * (simdgroup / across)) * tile_stride;  // 16 activations
    threadgroup const float* b = shared + 16 * (simdgroup % across) * tile_stride;  // 16 rows of weights
    uint chunks = (n + 15) / 16, half_of = tid & 1;
    float levels[5][8], sums[8];
    for (uint i = 0; i < 32; i++) {
        simdgroup_float8x8 c0 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), c1 = c0, c2 = c0, c3 = c0;
        UNROLL for (uint j = 0; j < 8; j++) sums[j] = 0;
        for (uint first = strand_of(i); first < chunks; first += 64) {
            uint count = first + 32 < chunks ? 2 : 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (half_of < count && tid / 2 < bringing) {
                float v[16];
                if (tid / 2 < weights) {
                    W::load(w_row, first + 32 * half_of, n, v);
                } else {
                    load_inputs<W>(x_row, first + 32 * half_of, n, v);
                }
                UNROLL for (uint j = 0; j < 16; j++) stage[j] = v[j];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (plain != 0) {
                // The lane multiplies two rows of activations with four rows of weights.
                threadgroup const float* x = a + 2 * (lane / 4) * tile_stride;
                threadgroup const float* w = b + 4 * (lane % 4) * tile_stride;
                for (uint k = 0; k < 16 * count; k += 4) {
                    float4 x0 = *(threadgroup const float4*)(x + k), x1 = *(threadgroup const float4*)(x + tile_stride + k);
                    UNROLL for (uint j = 0; j < 4; j++) {
                        float4 v = *(threadgroup const float4*)(w + j * tile_stride + k);
                        sums[j] = add_four(v, x0, sums[j]);
                        sums[4 + j] = add_four(v, x1, sums[4 + j]);
                    }
                }
                continue;
            }
            for (uint k = 0; k < 16 * count; k += 8) {
                simdgroup_float8x8 a0, a1, b0, b1;
                simdgroup_load(a0, a + k, tile_stride);
                simdgroup_load(a1, a + 8 * tile_stride + k, tile_stride);
                simdgroup_load(b0, b + k, tile_stride, ulong2(0, 0), true);
                simdgroup_load(b1, b + 8 * tile_stride + k, tile_stride, ulong2(0, 0), true);
                simdgroup_multiply_accumulate(c0, a0, b0, c0);
                simdgroup_multiply_accumulate(c1, a0, b1, c1);
                simdgroup_multiply_accumulate(c2, a1, b0, c2);
                simdgroup_multiply_accumulate(c3, a1, b1, c3);
            }
        }
        if (plain == 0) {
            UNROLL for (uint j = 0; j < 2; j++) {
                sums[j] = c0.thread_elements()[j];
                sums[2 + j] = c1.thread_elements()[j];
                sums[4 + j] = c2.thread_elements()[j];
                sums[6 + j] = c3.thread_elements()[j];
            }
        }
        bool carry = true;
        UNROLL for (uint level = 0; level < 5; level++) {
            bool waits = carry && (i >> level & 1) == 0;  // this bit of the number of finished strands becomes 1, so the sum is stored
            carry = carry && !waits;
            UNROLL for (uint j = 0; j < 8; j++) {
                if (waits) levels[level][j] = sums[j];
                if (carry) sums[j] = levels[level][j] + sums[j];
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* out = shared + tile_result(16 * (simdgroup / across), 16 * (simdgroup % across));
    if (plain != 0) {
        UNROLL for (uint j = 0; j < 8; j++) out[tile_result(2 * (lane / 4) + j / 4, 4 * (lane % 4) + j % 4)] = sums[j];
    } else {
        simdgroup_float8x8 c;
        UNROLL for (uint i = 0; i < 4; i++) {
            UNROLL for (uint j = 0; j < 2; j++) c.thread_elements()[j] = sums[2 * i + j];
            simdgroup_store(c, out + tile_result(i / 2 * 8, i % 2 * 8), weights + 4);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
