// Algorithms for products of groups of weight rows with columns. A column is a row of activations.
// A team of warps takes M groups and some columns. The strands (see base.h) are divided among the
// team's warps, and their sums are joined in shared memory. staged.h has those for many columns.
#include "activations.h"
#include "weights.h"

// waits_itself is true for an algorithm whose multiply waits for the previous kernel. start_next is
// called after it.
template <class A>
constexpr bool waits_itself = false;

// add_tiles adds the products of a block with T tiles of 8 columns. A lane adds those of rows r and
// r+8 with columns 2q and 2q+1 of each tile, where r is lane/4 and q is lane%4.
template <class W, int T>
__device__ inline void add_tiles(const Lane<W>& w, const uint4 (&x)[T], float* sums) {
    uint a[8];
    w.values(a);
    UNROLL for (uint t = 0; t < T; t++) add_dots(sums + 4 * t, a, x[t]);
}

// add_tiles is add_tiles for M groups and for activations in shared memory.
template <int M, int T>
__device__ inline void add_tiles(const uint (&a)[M][8], const uint4* x, float* sums) {
    UNROLL for (uint t = 0; t < T; t++) {
        uint4 v = x[32 * t];
        UNROLL for (uint m = 0; m < M; m++) add_dots(sums + (m * T + t) * 4, a[m], v);
    }
}

// Parts are the sums of the strands of each of 16 rows and C columns, in shared memory.
template <int C>
struct Parts {
    enum { stride = 20 }; // floats per column; lanes write to different banks
    float v[strands][C * stride];

    __device__ float& at(uint strand, uint column, uint row) { return v[strand][column * stride + row]; }

    __device__ float sum(uint column, uint row) {
        float s = 0;
        UNROLL for (uint i = 0; i < strands; i++) s += at(i, column, row);
        return s;
    }
};

// Tensor multiplies a block of weights with T tiles of 8 columns. A warp takes S strands and reads
// U blocks before it uses the first; a team has 8/S warps.
template <class W, int M, int T, int S, int U>
struct Tensor {
    enum { groups = M, columns = 8 * T, warps = strands / S, values = S * M * T * 4, complete = 0 };

    uint own[T]; // byte offsets, in block 0, of the lane's activations, which are in column lane/4 of each tile

    struct Block {
        Lane<W> w[M];
        uint4 x[T];
    };

    // multiply computes the warp's sums. group(m) is the m-th group of weights. row(c) is the row
    // of activations of column c.
    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        const uchar* w[M];
        UNROLL for (uint m = 0; m < M; m++) w[m] = group(m);
        UNROLL for (uint t = 0; t < T; t++) {
            uint r = row(8 * t + lane / 4);
            own[t] = r / 8 * blocks * column_bytes + 16 * (r % 8 * 4 + lane % 4);
        }
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint begin[S + 1], longest = (blocks + strands - 1) / strands;
        UNROLL for (uint i = 0; i <= S; i++) begin[i] = strand_begin(warp * S + i, blocks);
        enum { at_once = S < U ? S : U, steps = U / at_once };
        for (uint first = 0; first < longest; first += steps) {
            UNROLL for (uint i = 0; i < S; i += at_once) {
                Block read[U];
                UNROLL for (uint u = 0; u < U; u++) {
                    uint s = i + u % at_once, b = begin[s] + first + u / at_once;
                    if (b < begin[s + 1]) load(w, x, b, lane, read[u]);
                }
                UNROLL for (uint u = 0; u < U; u++) {
                    uint s = i + u % at_once;
                    if (begin[s] + first + u / at_once < begin[s + 1]) add(read[u], sums + s * M * T * 4);
                }
            }
        }
    }

    __device__ void load(const uchar* const* w, const uchar* x, uint b, uint lane, Block& read) const {
        UNROLL for (uint m = 0; m < M; m++) read.w[m].load(w[m], b, lane);
        UNROLL for (uint t = 0; t < T; t++) read.x[t] = *(const uint4*)(x + b * column_bytes + own[t]);
    }

    static __device__ void add(const Block& read, float* sums) {
        UNROLL for (uint m = 0; m < M; m++) add_tiles<W, T>(read.w[m], read.x, sums + m * T * 4);
    }

    // put writes a lane's sums of group m.
    static __device__ void put(const float (&sums)[values], Parts<8 * T>& parts, uint m, uint warp, uint lane) {
        UNROLL for (uint s = 0; s < S; s++) {
            UNROLL for (uint i = 0; i < T * 4; i++) {
                parts.at(warp * S + s, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2)) = sums[(s * M + m) * T * 4 + i];
            }
        }
    }
};

// Packed has N rows of activations in memory.
template <int N>
struct Packed {
    const uchar* own[N]; // block 0 of a row

    template <class Row>
    __device__ Packed(const uchar* x, uint blocks, Row row) {
        UNROLL for (uint n = 0; n < N; n++) {
            uint r = row(n);
            own[n] = x + ulong(r / 8) * blocks * column_bytes + r % 8 * 64;
        }
    }
    __device__ const uint4* values(uint n, uint b) const { return (const uint4*)(own[n] + b * column_bytes); }
};

// Row is one row of activations in shared memory, in the order of Packed.
struct Row {
    uint4* x;

    __device__ Row(void* shared) : x((uint4*)shared) {}
    __device__ const uint4* values(uint, uint b) const { return x + 4 * b; }

    // put stores values 8i to 8i+7 of the packed order in the given number of parts.
    template <int parts>
    __device__ void put(uint i, float4 low, float4 high) {
        low = limited(low, factor(parts)), high = limited(high, factor(parts));
        UNROLL for (uint p = 0; p < parts; p++) x[4 * (parts * (i / 4) + p) + i % 4] = take_part(low, high);
    }

    // fill stores a row of the given number of blocks. read(i) returns values i to i+3. A thread
    // issues the reads of four rounds before it uses them.
    template <int parts, class Read>
    __device__ void fill(Read read, uint blocks, uint thread, uint threads) {
        for (uint first = thread; first < 4 * blocks; first += 4 * threads) {
            float4 v[4][2];
            UNROLL for (uint u = 0; u < 4; u++) {
                uint i = min(first + u * threads, 4 * blocks - 1), at = 32 * (i / 4) + 4 * (i % 4);
                v[u][0] = read(at);
                v[u][1] = read(at + 16);
            }
            UNROLL for (uint u = 0; u < 4; u++) {
                uint i = first + u * threads;
                if (i < 4 * blocks) put<parts>(i, v[u][0], v[u][1]);
            }
        }
    }

    // copy copies a row from memory.
    __device__ void copy(const Packed<1>& from, uint blocks, uint thread, uint threads) {
        for (uint i = thread; i < 4 * blocks; i += threads) x[i] = from.values(0, i / 4)[i % 4];
    }

    static __device__ uint bytes(uint blocks) { return 64 * blocks; }
};

// Few multiplies four blocks of four strands with one or two columns (N) at once. A tensor core
// multiplies the weights of each block with 8 columns; columns 2j and 2j+1 are those of the j-th
// block, so of its products only those of the lanes with lane%4 == j count. A warp takes S strands,
// 4 or 8, and reads U rounds of blocks before it uses the first.
template <class W, int M, int N, int S, int U>
struct Few {
    enum { groups = M, columns = N, warps = strands / S, fours = S / 4, values = fours * M * N * 2, complete = 0 };

    struct Four {
        Lane<W> w[M][4];
        uint4 x;
    };

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        multiply(group, Packed<N>(x, blocks, row), blocks, warp, lane, sums);
    }

    template <class Group, class Source>
    __device__ void multiply(Group group, const Source& x, uint blocks, uint warp, uint lane, float (&sums)[values]) {
        float all[S][M][4]; // of each strand
        UNROLL for (uint i = 0; i < S * M * 4; i++) all[i / 4 / M][i / 4 % M][i % 4] = 0;
        uint longest = (blocks + strands - 1) / strands;
        for (uint first = 0; first < longest; first += U) {
            Four read[U][fours];
            UNROLL for (uint u = 0; u < U * fours; u++) {
                if (u == 0 || first + u / fours < longest) load(group, x, blocks, warp * S + u % fours * 4, first + u / fours, lane, read[u / fours][u % fours]);
            }
            UNROLL for (uint u = 0; u < U * fours; u++) add(read[u / fours][u % fours], blocks, warp * S + u % fours * 4, first + u / fours, all + u % fours * 4);
        }
        UNROLL for (uint i = 0; i < values; i++) {
            uint n = i / 2 % N, m = i / 2 / N % M, four = i / 2 / N / M;
            UNROLL for (uint j = 0; j < 4; j++) {
                float v = all[4 * four + j][m][i % 2 * 2 + n];
                if (j == 0 || lane % 4 == j) sums[i] = v;
            }
        }
    }

    // load reads the i-th blocks of four strands. A strand without that block reads another.
    template <class Group, class Source>
    static __device__ void load(Group group, const Source& x, uint blocks, uint strand, uint i, uint lane, Four& to) {
        UNROLL for (uint j = 0; j < 4; j++) {
            uint b = min(strand_begin(strand + j, blocks) + i, blocks - 1);
            UNROLL for (uint m = 0; m < M; m++) to.w[m][j].load(group(m), b, lane);
        }
        uint column = lane / 4, b = min(strand_begin(strand + column / 2, blocks) + i, blocks - 1);
        to.x = (N == 2 && column % 2 == 1 ? x.values(N - 1, b) : x.values(0, b))[lane % 4];
    }

    static __device__ void add(const Four& read, uint blocks, uint strand, uint i, float (*sums)[M][4]) {
        UNROLL for (uint j = 0; j < 4; j++) {
            if (strand_begin(strand + j, blocks) + i >= strand_begin(strand + j + 1, blocks)) continue;
            UNROLL for (uint m = 0; m < M; m++) {
                uint a[8];
                read.w[m][j].values(a);
                add_dots(sums[j][m], a, read.x);
            }
        }
    }

    static __device__ void put(const float (&sums)[values], Parts<N>& parts, uint m, uint warp, uint lane) {
        UNROLL for (uint f = 0; f < fours; f++) {
            UNROLL for (uint i = 0; i < N * 2; i++) parts.at(warp * S + 4 * f + lane % 4, i / 2, lane / 4 + 8 * (i % 2)) = sums[(f * M + m) * N * 2 + i];
        }
    }
};

// Single multiplies one column, with more warps than Few: a warp takes S strands, 1 to 8, and reads
// U blocks before it uses the first. All 8 columns of the tensor core are the same.
template <class W, int M, int N, int S, int U>
struct Single {
    enum { groups = M, columns = N, warps = strands / S, values = S * M * 2, complete = 0 };

    struct Block {
        Lane<W> w[M];
        uint4 x;
    };

    template <class Group, class Source>
    __device__ void multiply(Group group, const Source& x, uint blocks, uint warp, uint lane, float (&sums)[values]) {
        UNROLL for (uint s = 0; s < S; s++) {
            uint begin = strand_begin(warp * S + s, blocks), end = strand_begin(warp * S + s + 1, blocks);
            float all[M][4];
            UNROLL for (uint i = 0; i < M * 4; i++) all[i / 4][i % 4] = 0;
            for (uint first = begin; first < end; first += U) {
                Block read[U];
                UNROLL for (uint u = 0; u < U; u++) {
                    if (first + u < end) load(group, x, first + u, lane, read[u]);
                }
                UNROLL for (uint u = 0; u < U; u++) {
                    if (first + u < end) add(read[u], all);
                }
            }
            UNROLL for (uint m = 0; m < M; m++) sums[(s * M + m) * 2] = all[m][0], sums[(s * M + m) * 2 + 1] = all[m][2];
        }
    }

    template <class Group, class Source>
    static __device__ void load(Group group, const Source& x, uint b, uint lane, Block& to) {
        UNROLL for (uint m = 0; m < M; m++) to.w[m].load(group(m), b, lane);
        to.x = x.values(0, b)[lane % 4];
    }

    static __device__ void add(const Block& read, float (*sums)[4]) {
        UNROLL for (uint m = 0; m < M; m++) {
            uint a[8];
            read.w[m].values(a);
            add_dots(sums[m], a, read.x);
        }
    }

    static __device__ void put(const float (&sums)[values], Parts<N>& parts, uint m, uint warp, uint lane) {
        if (lane % 4 != 0) return;
        UNROLL for (uint i = 0; i < S * 2; i++) parts.at(warp * S + i / 2, 0, lane / 4 + 8 * (i % 2)) = sums[(i / 2 * M + m) * 2 + i % 2];
    }
};
