// Products of many rows: a threadgroup of four simdgroups multiplies 32 rows of weights with 32 rows of activations.
//
// A product has the same bits as in products (quants.h): there lane s of a simdgroup sums the chunks s, s+32, s+64 and so on,
// and a tree adds the lanes. Here the chunks are taken in the same strands, one strand after another in the order in which
// the tree pairs them, and finished sums wait on the levels of the tree, as the digits of a binary counter.
#include "quants.h"

// Whether simdgroup matrices are left alone. They are quicker, but Metal does not say in which order they sum; the backend
// compares both at start and uses them where they agree.
CONSTANT(bool, plain_tiles, 0)

constant uint tile_size = 32;
constant uint tile_stride = 36;  // of a row in threadgroup memory, which is of 2*32*36 floats

// strand_of turns the five bits of i around.
inline uint strand_of(uint i) {
    return (i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | (i & 16) >> 4;
}

// tile leaves the products in shared: activation i times weight row j at i*tile_stride + j. Threads 0 to 63 bring weights,
// two a row; w_row is the row of the thread. Threads 64 to 127 bring activations in the same way. All threads of the
// threadgroup call it; shared can be read when it returns.
template <typename W>
inline void tile(device const uchar* w_row, device const float* x_row, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    threadgroup float* xs = shared + tile_size * tile_stride;
    threadgroup float* stage = (tid < 64 ? shared : xs) + tid % 64 / 2 * tile_stride + 16 * (tid & 1);
    threadgroup const float* a = xs + 16 * (simdgroup / 2) * tile_stride;  // 16 activations
    threadgroup const float* b = shared + 16 * (simdgroup & 1) * tile_stride;  // 16 rows of weights
    uint chunks = (n + 15) / 16, half_of = tid & 1;
    float levels[5][8], sums[8];
    for (uint i = 0; i < 32; i++) {
        simdgroup_float8x8 c0 = make_filled_simdgroup_matrix<float, 8, 8>(0.0f), c1 = c0, c2 = c0, c3 = c0;
        for (uint j = 0; j < 8; j++) sums[j] = 0;
        for (uint first = strand_of(i); first < chunks; first += 64) {
            uint count = first + 32 < chunks ? 2 : 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (half_of < count) {
                float v[16];
                if (tid < 64) {
                    W::load(w_row, first + 32 * half_of, n, v);
                } else {
                    load_inputs<W>(x_row, first + 32 * half_of, n, v);
                }
                for (uint j = 0; j < 16; j++) stage[j] = v[j];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (plain_tiles) {
                // The lane has activation lane/2 and eight of the weights.
                threadgroup const float* x = a + lane / 2 * tile_stride;
                threadgroup const float* w = b + 8 * (lane & 1) * tile_stride;
                for (uint k = 0; k < 16 * count; k++) {
                    for (uint j = 0; j < 8; j++) sums[j] = fma(w[j * tile_stride + k], x[k], sums[j]);
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
        if (!plain_tiles) {
            for (uint j = 0; j < 2; j++) {
                sums[j] = c0.thread_elements()[j];
                sums[2 + j] = c1.thread_elements()[j];
                sums[4 + j] = c2.thread_elements()[j];
                sums[6 + j] = c3.thread_elements()[j];
            }
        }
        for (uint level = 0; level < 5; level++) {
            bool carry = (i >> level & 1) != 0;
            for (uint j = 0; j < 8; j++) {
                if (carry) {
                    sums[j] = levels[level][j] + sums[j];
                } else {
                    levels[level][j] = sums[j];
                }
            }
            if (!carry) break;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* out = shared + 16 * (simdgroup / 2) * tile_stride + 16 * (simdgroup & 1);
    if (plain_tiles) {
        for (uint j = 0; j < 8; j++) out[lane / 2 * tile_stride + 8 * (lane & 1) + j] = sums[j];
    } else {
        simdgroup_float8x8 c;
        for (uint i = 0; i < 4; i++) {
            for (uint j = 0; j < 2; j++) c.thread_elements()[j] = sums[2 * i + j];
            simdgroup_store(c, out + i / 2 * 8 * tile_stride + i % 2 * 8, tile_stride);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
