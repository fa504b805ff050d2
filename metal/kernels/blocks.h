// Blocks of simdgroup matrices that are multiplied together. A driver may define faster versions
// with the same order of sums.
#include "defs.h"

// store_down writes four values to threadgroup memory, stride floats apart from each other.
inline void store_down(float4 v, threadgroup float* to, uint at, uint stride) {
    to[at] = v.x;
    to[at + stride] = v.y;
    to[at + 2 * stride] = v.z;
    to[at + 3 * stride] = v.w;
}

#if !defined(MATRIX_BLOCKS)
// block_row and block_column return the row and the column, in a block of I by J matrices, of the
// first of the lane's two elements of matrix (i, j). The other one is in the next column. The row
// is the same for all matrices of the first half of a row, and for all of the second half.
template <uint I, uint J>
inline uint block_row(uint i, uint j, uint lane) { return 8 * i + (lane / 4 & 4) + lane / 2 % 4; }
template <uint I, uint J>
inline uint block_column(uint j, uint lane) { return 8 * j + (lane / 4 & 2) * 2 + lane % 2 * 2; }

// multiply_block adds the products of 8I rows of N values at a with 8J columns of N values to sums.
// At b are N rows of the columns.
template <uint N, uint I, uint J>
inline void multiply_block(thread simdgroup_float8x8 (&sums)[I][J], threadgroup const float* a, uint a_stride, threadgroup const float* b, uint b_stride) {
    for (uint k = 0; k < N; k += 8) {
        simdgroup_float8x8 rows[I], columns;
        UNROLL for (uint i = 0; i < I; i++) simdgroup_load(rows[i], a + 8 * i * a_stride + k, a_stride);
        UNROLL for (uint j = 0; j < J; j++) {
            simdgroup_load(columns, b + 8 * j + k * b_stride, b_stride);
            UNROLL for (uint i = 0; i < I; i++) simdgroup_multiply_accumulate(sums[i][j], rows[i], columns, sums[i][j]);
        }
    }
}

// across_row and across_column are block_row and block_column for multiply_across.
template <uint I, uint J>
inline uint across_row(uint i, uint j, uint lane) { return block_row<I, J>(i, j, lane); }
template <uint I, uint J>
inline uint across_column(uint j, uint lane) { return block_column<I, J>(j, lane); }

// multiply_across is multiply_block for the first 8C columns, with both factors across the sum: at
// a are N rows of 8I values. At b are N rows of 16 columns, and b_step further on those of the next
// 16 columns.
template <uint N, uint C, uint I, uint J>
inline void multiply_across(thread simdgroup_float8x8 (&sums)[I][J], threadgroup const float* a, uint a_stride, threadgroup const float* b, uint b_stride, uint b_step) {
    for (uint k = 0; k < N; k += 8) {
        simdgroup_float8x8 rows[I], columns;
        UNROLL for (uint i = 0; i < I; i++) simdgroup_load(rows[i], a + 8 * i + k * a_stride, a_stride, ulong2(0, 0), true);
        UNROLL for (uint j = 0; j < C; j++) {
            simdgroup_load(columns, b + j / 2 * b_step + 8 * (j % 2) + k * b_stride, b_stride);
            UNROLL for (uint i = 0; i < I; i++) simdgroup_multiply_accumulate(sums[i][j], rows[i], columns, sums[i][j]);
        }
    }
}

// Aside holds the sums of a block of I by J matrices while other sums are computed.
template <uint I, uint J>
struct Aside {
    simdgroup_float8x8 kept[I][J];
    void set(thread simdgroup_float8x8 (&sums)[I][J]) {
        UNROLL for (uint i = 0; i < I * J; i++) kept[i / J][i % J] = sums[i / J][i % J];
    }
    void get(thread simdgroup_float8x8 (&sums)[I][J]) {
        UNROLL for (uint i = 0; i < I * J; i++) sums[i / J][i % J] = kept[i / J][i % J];
    }
    void add_to(thread simdgroup_float8x8 (&sums)[I][J]) {
        UNROLL for (uint i = 0; i < 2 * I * J; i++) sums[i / 2 / J][i / 2 % J].thread_elements()[i % 2] += kept[i / 2 / J][i / 2 % J].thread_elements()[i % 2];
    }
};
#endif
