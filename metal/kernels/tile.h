// Products of many rows: a threadgroup multiplies a tile of rows of weights with a tile of rows of
// activations.
//
// The results have the same bits as those of the function products (products.h): the weights of a
// strand are summed in the same order, and strands are added in the same order. There are two kinds
// of tiles.
//
// Narrow tiles have up to 64 rows of weights and 32 of activations. Each simdgroup computes the
// whole tile for one strand at a time. The threads of a threadgroup stage the next chunks of all
// its strands together, since these are next to each other in memory. A threadgroup has fewer
// simdgroups than a row has strands, so it passes over the row more than once.
//
// Wide tiles have 128 rows of weights and 64 of activations, of which each simdgroup computes a
// quarter. The threadgroup computes one strand after another. A weight is unpacked for twice as
// many activations, and threads unpack and stage the next chunk between products of the one before.
#include "products.h"
#include "blocks.h"

// plain_tiles is 1 if simdgroup matrices are not used. Matrices are faster, but Metal does not
// specify the order of their sums. When the backend starts, it compares results with and without
// matrices, and uses matrices if the bits agree.
CONSTANT(uint, plain_tiles, 1)
CONSTANT(uint, tile_rows, 2)    // rows of weights: 32 or 64, or 128 in wide tiles
CONSTANT(uint, tile_inputs, 3)  // rows of activations: 16 or 32, or 64 in wide tiles

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

// MatrixRows are the rows of weights of a tile, from row first on, of a matrix at w with out rows.
struct MatrixRows {
    device const uchar* w;
    uint first, out, row_bytes;
    device const uchar* row(uint i) const { return w + ulong(min(first + i, out - 1)) * row_bytes; }
};

// GatedRows are rows of gate and then as many rows of up.
struct GatedRows {
    device const uchar* gate;
    device const uchar* up;
    uint first, out, row_bytes;
    device const uchar* row(uint i) const {
        uint each = tile_rows / 2;
        return (i < each ? gate : up) + ulong(min(first + i % each, out - 1)) * row_bytes;
    }
};

// PlainRows are count rows of activations that begin at x and are stride floats apart. Like other
// rows of activations, they have a member at, which returns where row i begins or, past the end,
// the last one.
struct PlainRows {
    device const float* x;
    uint stride, count;
    uint at(uint i) const { return min(i, count - 1) * stride; }
};

// OwnRows are the rows that a thread stages: one or two of weights, and up to four of activations,
// which begin at x + at[i]. count is the tile's number of rows of activations.
struct OwnRows {
    device const uchar* w[2];
    device const float* x;
    uint at[4], count;
};

// load_quarter reads the activations for the weights 4i to 4i+3 of chunk c, of the row at x + at.
template <typename W>
inline float4 load_quarter(device const float* x, uint at, uint c, uint i, uint n) {
    uint k = W::at(c, i);
    return four_inputs<W>(x + (at + k), k, n);
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

// narrow_weight and narrow_input return the first rows of weights and of activations that a thread
// stages in a narrow tile. The others are 32 and 8 rows apart.
inline uint narrow_weight(uint tid) { return tid / groups; }
inline uint narrow_input(uint tid) { return tid / (4 * groups); }

// narrow_tile is tile for narrow tiles. The next chunks are fetched while those before are
// multiplied.
template <typename W>
inline void narrow_tile(thread const OwnRows& own, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    uint rows = tile_rows, inputs = tile_inputs, plain = plain_tiles, chunks = (n + 15) / 16;
    // The thread stages a chunk of its rows of weights, and a quarter of a chunk of its rows of
    // activations.
    uint count = own.count;
    uint chunk = tid % groups, input_chunk = tid / 2 % groups, quarter = tid / (2 * groups) % 2 * 2 + tid % 2;
    threadgroup float* stage_w = shared + chunk * strand_floats() + 8 * narrow_weight(tid);
    threadgroup float* stage_x = shared + input_chunk * strand_floats() + 16 * rows + narrow_input(tid) * tile_stride + 4 * quarter;
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
        packed[0] = W::fetch(own.w[0], c, n);
        if (rows > 32) packed[1] = W::fetch(own.w[1], c, n);
        UNROLL for (uint i = 0; i < 4; i++) {
            if (8 * i < inputs) four[i] = load_quarter<W>(own.x, own.at[i], d, quarter, n);
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
            packed[0] = W::fetch(own.w[0], c, n);
            if (rows > 32) packed[1] = W::fetch(own.w[1], c, n);
            UNROLL for (uint i = 0; i < 4; i++) {
                if (8 * i < inputs) four[i] = load_quarter<W>(own.x, own.at[i], d, quarter, n);
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

// wide_quarter and wide_input return which quarter of a chunk a thread stages in a wide tile, and
// of which row of activations. It also does so 32 rows further on. So threads read two quarters
// that are next to each other, and write to different banks.
inline uint wide_quarter(uint tid) { return tid / 64 * 2 + tid % 2; }
inline uint wide_input(uint tid) { return tid / 2 % 32; }

// Compiling wide tiles takes long, so a source defines WIDE_TILES if its geometry has them.
#if defined(WIDE_TILES)
// A wide tile's chunk in threadgroup memory: the weights of all rows at each of its 16 places, and
// then the activations of all rows.
constant uint weight_stride = 128, input_stride = 68;  // floats per place

// Staging is what a thread stages of a wide tile: chunk c of a row of weights, from own_w on, and a
// quarter of the chunk of two rows of activations, from own_x on.
template <typename W>
struct Staging {
    typename W::Packed packed;
    float4 four[2];
    uint c, own_w, own_x, quarter;
    void fetch(thread const OwnRows& own, uint chunk, uint n) {
        c = chunk;
        packed = W::fetch(own.w[0], c, n);
        UNROLL for (uint i = 0; i < 2; i++) four[i] = load_quarter<W>(own.x, own.at[i], c, quarter, n);
    }
    void stage(threadgroup float* to) const {
        float v[16];
        W::unpack(packed, c, v);
        UNROLL for (uint k = 0; k < 16; k++) to[own_w + k * weight_stride] = v[k];
        UNROLL for (uint i = 0; i < 2; i++) store_down(four[i], to + own_x + 32 * i, 0, input_stride);
    }
};

// wide_chunk multiplies a staged chunk: 64 rows of weights at a with 8J rows of activations at b.
// Meanwhile it stages the chunk that was fetched, at next, and fetches chunk then.
template <typename W, uint J>
inline void wide_chunk(thread simdgroup_float8x8 (&sums)[8][4], thread Staging<W>& staging, thread const OwnRows& own, uint then, uint n, threadgroup const float* a, threadgroup const float* b, threadgroup float* next) {
    multiply_across<8, J>(sums, a, weight_stride, b, input_stride, 32);
    staging.stage(next);
    staging.fetch(own, then, n);
    multiply_across<8, J>(sums, a + 8 * weight_stride, weight_stride, b + 8 * input_stride, input_stride, 32);
}

// following returns the chunk after chunk c: the next one of its strand, or the first one of the
// next strand.
inline uint following(uint c, uint chunks) { return c + strands < chunks ? c + strands : min(c % strands + 1, chunks - 1); }

// wide_tile is tile for wide tiles. A simdgroup computes 64 of the rows of weights and every second
// 16 of the rows of activations. Two chunks are staged: one that is multiplied, and the next one.
template <typename W>
inline void wide_tile(thread const OwnRows& own, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    uint chunks = (n + 15) / 16, count = own.count, half_of = simdgroup / 2;
    uint b = simdgroup % 2 * 64, a = 16 * weight_stride + 16 * half_of;
    uint other = 16 * (weight_stride + input_stride), now = 0;
    simdgroup_float8x8 sums[8][4];  // rows of weights by activations
    Aside<8, 4> total;
    Staging<W> staging;
    staging.quarter = wide_quarter(tid);
    staging.own_w = tid;
    staging.own_x = 16 * weight_stride + 4 * staging.quarter * input_stride + wide_input(tid);
    staging.fetch(own, 0, n);
    staging.stage(shared);
    staging.fetch(own, following(0, chunks), n);
    for (uint s = 0; s < strands; s++) {
        UNROLL for (uint i = 0; i < 32; i++) sums[i / 4][i % 4] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint c = s; c < chunks; c += strands) {
            threadgroup const float* staged = shared + now;
            now = other - now;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            uint then = following(staging.c, chunks);
            if (count > 32 + 16 * half_of) {
                wide_chunk<W, 4>(sums, staging, own, then, n, staged + b, staged + a, shared + now);
            } else if (count > 16 * half_of) {
                wide_chunk<W, 2>(sums, staging, own, then, n, staged + b, staged + a, shared + now);
            } else {
                staging.stage(shared + now);
                staging.fetch(own, then, n);
            }
        }
        if (s > 0) total.add_to(sums);
        if (s + 1 < strands) total.set(sums);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    UNROLL for (uint i = 0; i < 32; i++) {
        UNROLL for (uint e = 0; e < 2; e++) {
            uint column = across_column<8, 4>(i % 4, lane) + e, input = column + column / 16 * 16 + 16 * half_of;
            uint weight = 64 * (simdgroup % 2) + across_row<8, 4>(i / 4, i % 4, lane);
            shared[tile_result(input, weight)] = sums[i / 4][i % 4].thread_elements()[e];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
#endif

// tile computes the products of a tile with x.count rows of activations and leaves them in shared;
// see tile_result. All threads of the threadgroup must call tile. It ends with a barrier.
template <typename W, typename R, typename X>
inline void tile(thread const R& weights, thread const X& x, uint n, threadgroup float* shared, uint tid, uint lane, uint simdgroup) {
    OwnRows own;
    own.x = x.x;
    own.count = x.count;
#if defined(WIDE_TILES)
    if (tile_rows > 64) {
        own.w[0] = weights.row(tid);
        UNROLL for (uint i = 0; i < 2; i++) own.at[i] = x.at(wide_input(tid) + 32 * i);
        wide_tile<W>(own, n, shared, tid, lane, simdgroup);
        return;
    }
#endif
    UNROLL for (uint i = 0; i < 2; i++) own.w[i] = weights.row(narrow_weight(tid) + 32 * i);
    UNROLL for (uint i = 0; i < 4; i++) own.at[i] = x.at(narrow_input(tid) + 8 * i);
    narrow_tile<W>(own, n, shared, tid, lane, simdgroup);
}
