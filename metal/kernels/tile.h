// Products of many rows: a threadgroup multiplies a tile of rows of weights with a tile of rows of
// activations. Each simdgroup computes 32 rows of weights by 16 of activations, or by 32 in tiles
// of 64 by 64, which read each value from threadgroup memory less often.
//
// The results have the same bits as those of the function products (quants.h): the weights of a
// strand are summed in the same order, and strands are added in the same order. A tile passes over
// the row four times, for two strands each time, so that the two chunks that it loads at once are
// next to each other. A tile of 64 by 64 passes over it eight times, for one strand, since a
// simdgroup has registers for 32 by 32 sums.
#include "products.h"

// plain_tiles is 1 if simdgroup matrices are not used. Matrices are faster, but Metal does not
// specify the order of their sums. When the backend starts, it compares results with and without
// matrices, and uses matrices if the bits agree.
CONSTANT(uint, plain_tiles, 1)
CONSTANT(uint, tile_rows, 2)    // rows of weights: 32 or 64
CONSTANT(uint, tile_inputs, 3)  // rows of activations: 32 or 64

constant uint tile_stride = TILE_STRIDE;  // floats per row in threadgroup memory, which has tile_rows+tile_inputs rows

// tile_wide is 1 for tiles of 64 by 64.
inline uint tile_wide() { return tile_rows * tile_inputs > 2048 ? 1 : 0; }

inline uint tile_threads() { return tile_inputs * tile_rows / 16 >> tile_wide(); }

// Two threads load a row, a chunk each: the first threads load rows of weights. If there are enough
// threads, others load rows of activations; if not, the same threads load both. tile_loader returns
// the number of a thread among those that load activations.
inline uint tile_loader(uint tid) { return tile_threads() >= 2 * (tile_rows + tile_inputs) ? tid - 2 * tile_rows : tid; }

// tile_weight returns the row of the tile's weights that thread tid loads, or the last row if it
// loads none.
inline uint tile_weight(uint tid) { return min(tid / 2, tile_rows - 1); }

// tile_input returns the row of activations that thread tid loads, among the first count ones.
inline uint tile_input(uint tid, uint count) { return min(tile_loader(tid) / 2, count - 1); }

// tile_result returns the index in shared at which tile leaves the product of a row of activations
// and a row of weights.
inline uint tile_result(uint input, uint weight) { return weight * (tile_inputs + 4) + input; }

// plain_products adds the products of a chunk to the sums of a lane: four rows of activations at x
// with four rows of weights at w.
inline void plain_products(threadgroup const float* x, threadgroup const float* w, thread float* sums) {
    for (uint k = 0; k < 16; k += 4) {
        float4 inputs[4];
        UNROLL for (uint i = 0; i < 4; i++) inputs[i] = float4(*(threadgroup const float4*)(x + i * tile_stride + k));
        UNROLL for (uint j = 0; j < 4; j++) {
            float4 v = float4(*(threadgroup const float4*)(w + j * tile_stride + k));
            UNROLL for (uint i = 0; i < 4; i++) sums[4 * i + j] = add_four(v, inputs[i], sums[4 * i + j]);
        }
    }
}

inline void stage_chunk(thread const float* v, threadgroup float* to) {
    UNROLL for (uint i = 0; i < 16; i += 4) store_four(to + i, v[i], v[i + 1], v[i + 2], v[i + 3]);
}

// tile computes the products of a tile and leaves them in shared; see tile_result. w_row and x_row
// are the rows that tile_weight and tile_input return for the thread. All threads of the
// threadgroup must call tile. It ends with a barrier. The next chunks are fetched while those
// before are multiplied.
template <typename W>
inline void tile(device const uchar* w_row, device const float* x_row, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    uint weights = tile_rows, plain = plain_tiles, wide = tile_wide(), across = weights / 32, loader = tile_loader(tid), half_of = tid & 1;
    uint input = simdgroup / across * (16 << wide), weight = simdgroup % across * 32;
    bool loads_weights = tid < 2 * weights, loads_inputs = loader < 2 * tile_inputs;
    threadgroup float* stage_w = shared + tid / 2 * tile_stride + 16 * half_of;
    threadgroup float* stage_x = shared + (weights + loader / 2) * tile_stride + 16 * half_of;
    threadgroup const float* a = shared + (weights + input) * tile_stride;  // the simdgroup's activations
    threadgroup const float* b = shared + weight * tile_stride;             // its rows of weights
    threadgroup const float* plain_a = a + lane / 8 * 4 * tile_stride;      // the lane's activations without matrices
    threadgroup const float* plain_b = b + lane % 8 * 4 * tile_stride;
    // The two chunks at once are of two strands, or of one strand in a wide tile. There are two
    // sets of sums: for each strand, or for each 16 rows of activations in a wide tile.
    uint apart = wide != 0 ? strands : 1, own = half_of * apart, chunks = (n + 15) / 16;
    float total[2][16];  // in pairs, as matrices hold them, of 4 by 2 matrices; without matrices, of 4 activations by 4 weights
    UNROLL for (uint j = 0; j < 16; j++) total[0][j] = total[1][j] = 0;
    typename W::Packed packed = W::fetch(w_row, min(own, chunks - 1), n);
    float inputs[16];
    load_inputs<W>(x_row, min(own, chunks - 1), n, inputs);
    for (uint strand = 0; strand < strands; strand += 2 >> wide) {
        simdgroup_float8x8 sums[2][4][2];  // of each set: rows of weights by activations
        float plain_sums[2][16];
        UNROLL for (uint i = 0; i < 16; i++) {
            sums[i / 8][i / 2 % 4][i % 2] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
            plain_sums[0][i] = plain_sums[1][i] = 0;
        }
        for (uint first = strand; first < chunks; first += strands << wide) {
            uint count = first + apart < chunks ? 2 : 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (loads_weights && half_of < count) {
                float v[16];
                W::unpack(packed, first + own, v);
                stage_chunk(v, stage_w);
            }
            if (loads_inputs && half_of < count) stage_chunk(inputs, stage_x);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            uint ahead = (first + (strands << wide) < chunks ? first + (strands << wide) : strand + (2 >> wide)) + own;
            if (ahead < chunks) {
                if (loads_weights) packed = W::fetch(w_row, ahead, n);
                if (loads_inputs) load_inputs<W>(x_row, ahead, n, inputs);
            }
            if (plain != 0) {
                UNROLL for (uint set = 0; set < 2; set++) {
                    uint rows = wide != 0 ? 16 * set * tile_stride : 0;
                    for (uint chunk = wide != 0 ? 0 : set; chunk < (wide != 0 ? count : min(count, set + 1)); chunk++) {
                        plain_products(plain_a + rows + 16 * chunk, plain_b + 16 * chunk, plain_sums[set]);
                    }
                }
                continue;
            }
            UNROLL for (uint k = 0; k < 32; k += 8) {
                if (k < 16 * count) {
                    simdgroup_float8x8 x[4], w;
                    UNROLL for (uint i = 0; i < 4; i++) {
                        if (i < 2 || wide != 0) simdgroup_load(x[i], a + 8 * i * tile_stride + k, tile_stride, ulong2(0, 0), true);
                    }
                    UNROLL for (uint j = 0; j < 4; j++) {
                        simdgroup_load(w, b + 8 * j * tile_stride + k, tile_stride);
                        UNROLL for (uint i = 0; i < 2; i++) {
                            if (wide != 0) {
                                simdgroup_multiply_accumulate(sums[0][j][i], w, x[i], sums[0][j][i]);
                                simdgroup_multiply_accumulate(sums[1][j][i], w, x[2 + i], sums[1][j][i]);
                            } else {
                                simdgroup_multiply_accumulate(sums[k / 16][j][i], w, x[i], sums[k / 16][j][i]);
                            }
                        }
                    }
                }
            }
        }
        UNROLL for (uint i = 0; i < 32; i++) {
            uint set = i / 16, j = i % 16;
            float sum = plain != 0 ? plain_sums[set][j] : sums[set][j / 4][j / 2 % 2].thread_elements()[j % 2];
            if (wide != 0) {
                total[set][j] = strand == 0 ? sum : total[set][j] + sum;
            } else {
                total[0][j] = strand + set == 0 ? sum : total[0][j] + sum;
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    UNROLL for (uint set = 0; set < 2; set++) {
        threadgroup float* out = shared + tile_result(input + 16 * set, weight);
        if (plain != 0 && set <= wide) {
            UNROLL for (uint j = 0; j < 16; j++) out[tile_result(lane / 8 * 4 + j / 4, lane % 8 * 4 + j % 4)] = total[set][j];
        }
        if (plain == 0 && set <= wide) {
            simdgroup_float8x8 c;
            UNROLL for (uint i = 0; i < 8; i++) {
                UNROLL for (uint j = 0; j < 2; j++) c.thread_elements()[j] = total[set][2 * i + j];
                simdgroup_store(c, out + tile_result(i % 2 * 8, i / 2 * 8), tile_inputs + 4);
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
