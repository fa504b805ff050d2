// Products of many rows: a threadgroup multiplies a tile of rows of weights with a tile of rows of
// activations.
//
// The results have the same bits as those of the function products (products.h): the weights of a
// strand are summed in the same order, and strands are added in the same order. Each simdgroup
// computes the whole tile for one strand at a time. The threads of a threadgroup stage the next
// chunks of all its strands together, since these are next to each other in memory. A threadgroup
// has fewer simdgroups than a row has strands, so it passes over the row more than once.
#include "products.h"

// plain_tiles is 1 if simdgroup matrices are not used. Matrices are faster, but Metal does not
// specify the order of their sums. When the backend starts, it compares results with and without
// matrices, and uses matrices if the bits agree.
CONSTANT(uint, plain_tiles, 1)
CONSTANT(uint, tile_rows, 2)    // rows of weights: 32 or 64
CONSTANT(uint, tile_inputs, 3)  // rows of activations: 16 or 32

constant uint groups = TILE_SIMDGROUPS;  // simdgroups of a threadgroup
constant uint tile_threads = 32 * groups;

// A strand's chunk in threadgroup memory: the first 8 weights of each row, one row after another,
// then the other 8 of each, and then the 16 activations of each row, tile_stride floats apart. So
// simdgroups read from different banks, and eight floats between strands let threads write to them.
constant uint tile_stride = TILE_STRIDE;
inline uint strand_floats() { return 16 * tile_rows + tile_stride * tile_inputs + 8; }

// tile_result returns the index in shared at which tile leaves the product of a row of activations
// and a row of weights.
inline uint tile_result(uint input, uint weight) { return input * tile_rows + weight; }

// tile_weight returns the row of the tile's weights that a thread loads. It also loads row 32 after
// it, if there is one.
inline uint tile_weight(uint tid) { return tid / groups; }

// TileInputs are the rows of activations that a thread loads: every eighth, from tile_input on.
struct TileInputs {
    device const float* x;
    uint at[4];
    template <typename W>
    float4 load(uint row, uint c, uint i, uint n) const {
        uint k = W::at(c, i);
        return four_inputs<W>(x + (at[row] + k), k, n);
    }
};

inline uint tile_input(uint tid) { return tid / (4 * groups); }

// own_inputs returns the rows of activations of a thread, of count rows that begin at x and are
// stride floats apart.
inline TileInputs own_inputs(device const float* x, uint stride, uint tid, uint count) {
    TileInputs inputs;
    inputs.x = x;
    UNROLL for (uint i = 0; i < 4; i++) inputs.at[i] = min(tile_input(tid) + 8 * i, count - 1) * stride;
    return inputs;
}

// plain_products adds the products of 8 weights to the sums of a lane: four rows of activations at
// x with four rows of weights at w.
inline void plain_products(threadgroup const float* x, threadgroup const float* w, thread float* sums) {
    for (uint k = 0; k < 8; k += 4) {
        float4 inputs[4];
        UNROLL for (uint i = 0; i < 4; i++) inputs[i] = float4(*(threadgroup const float4*)(x + i * tile_stride + k));
        UNROLL for (uint j = 0; j < 4; j++) {
            float4 v = float4(*(threadgroup const float4*)(w + 8 * j + k));
            UNROLL for (uint i = 0; i < 4; i++) sums[4 * i + j] = add_four(v, inputs[i], sums[4 * i + j]);
        }
    }
}

// tile computes the products of a tile with count rows of activations and leaves them in shared;
// see tile_result. w0 and w1 are the rows of weights that the thread loads. All threads of the
// threadgroup must call tile. It ends with a barrier. The next chunks are fetched while those
// before are multiplied.
template <typename W>
inline void tile(device const uchar* w0, device const uchar* w1, thread const TileInputs& x, uint count, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    uint rows = tile_rows, inputs = tile_inputs, plain = plain_tiles, chunks = (n + 15) / 16;
    // The thread stages a chunk of its rows of weights, and a quarter of a chunk of its rows of
    // activations.
    uint chunk = tid % groups, input_chunk = tid / 2 % groups, quarter = tid / (2 * groups) % 2 * 2 + tid % 2;
    threadgroup float* stage_w = shared + chunk * strand_floats() + 8 * tile_weight(tid);
    threadgroup float* stage_x = shared + input_chunk * strand_floats() + 16 * rows + tile_input(tid) * tile_stride + 4 * quarter;
    threadgroup const float* b = shared + simdgroup * strand_floats();  // the simdgroup's weights
    threadgroup const float* a = b + 16 * rows;                         // its activations
    float total[4][4];  // for every eight rows of activations, of the products that the thread adds up
    UNROLL for (uint i = 0; i < 16; i++) total[i / 4][i % 4] = 0;
    for (uint pass = 0; pass < strands; pass += groups) {
        simdgroup_float8x8 sums[8][4];  // rows of weights by activations
        float plain_sums[4][16];        // without matrices: of 32 rows of weights by 16 of activations
        UNROLL for (uint i = 0; i < 4; i++) {
            UNROLL for (uint j = 0; j < 8; j++) sums[j][i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            UNROLL for (uint j = 0; j < 16; j++) plain_sums[i][j] = 0;
        }
        typename W::Packed packed[2];
        float4 four[4];
        uint c = min(pass + chunk, chunks - 1), d = min(pass + input_chunk, chunks - 1);
        packed[0] = W::fetch(w0, c, n);
        if (rows > 32) packed[1] = W::fetch(w1, c, n);
        UNROLL for (uint i = 0; i < 4; i++) {
            if (8 * i < inputs) four[i] = x.template load<W>(i, d, quarter, n);
        }
        for (uint first = pass; first < chunks; first += strands) {
            float v[2][16];
            W::unpack(packed[0], c, v[0]);
            if (rows > 32) W::unpack(packed[1], c, v[1]);
            UNROLL for (uint i = 0; i < 2; i++) {
                if (32 * i < rows) {
                    UNROLL for (uint k = 0; k < 16; k += 4) {
                        store_four(stage_w + 256 * i + k / 8 * 8 * rows + k % 8, v[i][k], v[i][k + 1], v[i][k + 2], v[i][k + 3]);
                    }
                }
            }
            UNROLL for (uint i = 0; i < 4; i++) {
                if (8 * i < inputs) store_four(stage_x + 8 * i * tile_stride, four[i].x, four[i].y, four[i].z, four[i].w);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            c = min(first + strands + chunk, chunks - 1);
            d = min(first + strands + input_chunk, chunks - 1);
            packed[0] = W::fetch(w0, c, n);
            if (rows > 32) packed[1] = W::fetch(w1, c, n);
            UNROLL for (uint i = 0; i < 4; i++) {
                if (8 * i < inputs) four[i] = x.template load<W>(i, d, quarter, n);
            }
            for (uint k = first + simdgroup < chunks ? 0 : 16; k < 16; k += 8) {
                if (plain != 0) {
                    UNROLL for (uint i = 0; i < 4; i++) {
                        if (i / 2 * 32 < rows && i % 2 * 16 < inputs) {
                            plain_products(a + (i % 2 * 16 + lane / 8 * 4) * tile_stride + k, b + k * rows + 8 * (i / 2 * 32 + lane % 8 * 4), plain_sums[i]);
                        }
                    }
                    continue;
                }
                simdgroup_float8x8 w[8], columns;
                UNROLL for (uint j = 0; j < 8; j++) {
                    if (8 * j < rows) simdgroup_load(w[j], b + k * rows + 64 * j, 8);
                }
                UNROLL for (uint i = 0; i < 4; i++) {
                    if (i == 0 || (8 * i < inputs && 8 * i < count)) {
                        simdgroup_load(columns, a + 8 * i * tile_stride + k, tile_stride, ulong2(0, 0), true);
                        UNROLL for (uint j = 0; j < 8; j++) {
                            if (8 * j < rows) simdgroup_multiply_accumulate(sums[j][i], w[j], columns, sums[j][i]);
                        }
                    }
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        // Strands are added for eight rows of activations at a time.
        threadgroup float* part = shared + simdgroup * 8 * rows;
        UNROLL for (uint i = 0; i < 4; i++) {
            if (8 * i < inputs && 8 * i < count) {
                if (plain == 0) {
                    UNROLL for (uint j = 0; j < 8; j++) {
                        if (8 * j < rows) simdgroup_store(sums[j][i], part + 64 * j, 8);
                    }
                } else if (lane / 16 == i % 2) {
                    UNROLL for (uint k = 0; k < 32; k++) {
                        uint set = k / 16, j = k % 16;
                        if (32 * set < rows) part[8 * (32 * set + lane % 8 * 4 + j % 4) + lane / 8 % 2 * 4 + j / 4] = plain_sums[2 * set + i / 2][j];
                    }
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
                UNROLL for (uint e = 0; e < 4; e++) {
                    if (tile_threads * e < 8 * rows) {
                        UNROLL for (uint s = 0; s < groups; s++) {
                            float sum = shared[8 * s * rows + tile_threads * e + tid];
                            total[i][e] = pass + s == 0 ? sum : total[i][e] + sum;
                        }
                    }
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
        }
    }
    UNROLL for (uint i = 0; i < 4; i++) {
        UNROLL for (uint e = 0; e < 4; e++) {
            uint k = tile_threads * e + tid;
            if (8 * i < inputs && 8 * i < count && tile_threads * e < 8 * rows) shared[tile_result(8 * i + k % 8, k / 8)] = total[i][e];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
