// Four algorithms for products of groups of weight rows with columns. A column is a row of
// activations. A team of warps takes M groups and some columns. The strands (see base.h) are
// divided among the team's warps, and their sums are joined in shared memory; or, for many columns,
// each warp computes all strands of its results one after another.
#include "activations.h"
#include "weights.h"

// Products are the products of the integers of a block with 8 columns, as dots16 returns them.
// Types with a scale per half of a block need those of both halves. With minimums, they also need
// the sums of the activations of the halves, times 2^-20.
template <class W>
struct Products {
    enum { sums_of_halves = W::halves != 0 && W::minimum != 0 };
    float low[4], high[W::halves ? 4 : 1], low_sum[sums_of_halves ? 4 : 1], high_sum[sums_of_halves ? 4 : 1];

    __device__ Products() {}

    // a has the integers as W::values returns them.
    __device__ Products(const uint* a, uint4 x) {
        UNROLL for (uint i = 0; i < 4; i++) low[i] = 0;
        dots16(low, a, x.x, x.y);
        if constexpr (W::halves != 0) {
            UNROLL for (uint i = 0; i < 4; i++) high[i] = 0;
            dots16(high, a + 4, x.z, x.w);
        } else {
            dots16(low, a + 4, x.z, x.w);
        }
        if constexpr (sums_of_halves) {
            const uint ones[8] = {0x00010001, 0x00010001, 0x00010001, 0x00010001, 0x00100010, 0x00100010, 0x00100010, 0x00100010};
            UNROLL for (uint i = 0; i < 4; i++) low_sum[i] = high_sum[i] = 0;
            dots16(low_sum, ones, x.x, x.y);
            dots16(high_sum, ones + 4, x.z, x.w);
        }
    }

    // take takes the products of another block if the lane is one of its lanes.
    __device__ void take(const Products& other, bool own) {
        UNROLL for (uint i = 0; i < 4; i++) {
            low[i] = own ? other.low[i] : low[i];
            if constexpr (W::halves != 0) high[i] = own ? other.high[i] : high[i];
            if constexpr (sums_of_halves) low_sum[i] = own ? other.low_sum[i] : low_sum[i], high_sum[i] = own ? other.high_sum[i] : high_sum[i];
        }
    }

    // add adds product i, of row r (0) or r+8 (1), to a sum. offset is what the integers are too
    // large by. x is the scale and the sum of the activations.
    __device__ float add(float sum, uint i, uint row, float offset, const typename W::Raw& raw, const Scales& k, float2 x) const {
        float d = row == 0 ? k.d0 : k.d1, m = row == 0 ? k.m0 : k.m1, v = low[i], least = x.y;
        if constexpr (W::halves != 0) v = fmaf(half_scale<W>(raw, row, 1), high[i], half_scale<W>(raw, row, 0) * low[i]);
        if (offset != 0) v = fmaf(-offset, x.y, v); // exact, as subtract_offset
        if constexpr (sums_of_halves) least = fmaf(half_minimum<W>(raw, row, 1), high_sum[i], half_minimum<W>(raw, row, 0) * low_sum[i]);
        if (W::minimum) return fmaf(x.x, fmaf(d, v, m * least), sum);
        return fmaf(d * x.x, v, sum);
    }
};

// add_tiles adds the products of a block with T tiles of 8 columns. A lane adds those of rows r and
// r+8 with columns 2q and 2q+1 of each tile, where r is lane/4 and q is lane%4.
template <class W, int T>
__device__ inline void add_tiles(const typename W::Integers& integers, const typename W::Raw& raw, const uint4 (&x)[T], const float2 (&s)[T][2], float* sums) {
    uint a[8];
    W::values(integers, a);
    subtract_offset<W>(a);
    Scales k = W::scales(raw);
    UNROLL for (uint t = 0; t < T; t++) {
        Products<W> products(a, x[t]);
        UNROLL for (uint i = 0; i < 4; i++) sums[4 * t + i] = products.add(sums[4 * t + i], i, i / 2, 0, raw, k, s[t][i % 2]);
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

    // Byte offsets in block 0 of the activations. own is for the lane's values, which are in column
    // lane/4 of each tile. scales is for the scales of columns 2q and 2q+1 with q = lane%4.
    uint own[T];
    uint scales[T][2];

    struct Block {
        typename W::Integers w[M];
        typename W::Raw k[M];
        uint4 x[T];
        float2 s[T][2];
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
            UNROLL for (uint i = 0; i < 2; i++) {
                uint s = row(8 * t + lane % 4 * 2 + i);
                scales[t][i] = s / 8 * blocks * column_bytes + 512 + 8 * (s % 8);
            }
        }
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        enum { at_once = S < U ? S : U, steps = U / at_once };
        uint begin[S + 1];
        UNROLL for (uint i = 0; i <= S; i++) begin[i] = strand_begin(warp * S + i, blocks);
        uint longest = (blocks + strands - 1) / strands;
        for (uint first = 0; first < longest; first += steps) {
            UNROLL for (uint i = 0; i < S; i += at_once) {
                Block read[U];
                UNROLL for (uint u = 0; u < U; u++) {
                    uint s = i + u % at_once, b = begin[s] + first + u / at_once;
                    if (b < begin[s + 1]) load(w, x, b, lane, read[u]);
                }
                UNROLL for (uint u = 0; u < U; u++) {
                    uint s = i + u % at_once, b = begin[s] + first + u / at_once;
                    if (b < begin[s + 1]) add(read[u], sums + s * M * T * 4);
                }
            }
        }
    }

    __device__ void load(const uchar* const* w, const uchar* x, uint b, uint lane, Block& read) const {
        UNROLL for (uint m = 0; m < M; m++) {
            const uchar* super = super_block<W>(w[m], b);
            W::load(block<W>(super, b), lane, read.w[m]);
            W::load_scales(block<W>(super, b), super, lane / 4, read.k[m]);
        }
        x += b * column_bytes;
        UNROLL for (uint t = 0; t < T; t++) {
            read.x[t] = *(const uint4*)(x + own[t]);
            UNROLL for (uint i = 0; i < 2; i++) read.s[t][i] = *(const float2*)(x + scales[t][i]);
        }
    }

    static __device__ void add(const Block& read, float* sums) {
        UNROLL for (uint m = 0; m < M; m++) add_tiles<W, T>(read.w[m], read.k[m], read.x, read.s, sums + m * T * 4);
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

// Packed has N quantised rows of activations in memory. Offsets are bytes in block 0.
template <int N>
struct Packed {
    const uchar* x;
    uint own[N], scales[N];

    template <class Row>
    __device__ Packed(const uchar* from, uint blocks, Row row) : x(from) {
        UNROLL for (uint n = 0; n < N; n++) {
            uint r = row(n), group = r / 8 * blocks * column_bytes;
            own[n] = group + r % 8 * 64;
            scales[n] = group + 512 + r % 8 * 8;
        }
    }
    __device__ const uint4* values(uint n, uint b) const { return (const uint4*)(x + b * column_bytes + own[n]); }
    __device__ float2 scale(uint n, uint b) const { return *(const float2*)(x + b * column_bytes + scales[n]); }
};

// Row is one quantised row of activations in shared memory: the values of all blocks in the order
// of Packed, then scales and sums.
struct Row {
    uchar* q;
    float2* s;

    __device__ Row(void* shared, uint blocks) : q((uchar*)shared), s((float2*)((uchar*)shared + 64 * blocks)) {}
    __device__ const uint4* values(uint, uint b) const { return (const uint4*)(q + 64 * b); }
    __device__ float2 scale(uint, uint b) const { return s[b]; }

    // put quantises values 8i to 8i+7 of the packed order in the given number of parts, and stores
    // them if there is set. Four neighbouring lanes call it together.
    template <int parts>
    __device__ void put(uint i, bool there, float4 low, float4 high) {
        UNROLL for (uint p = 0; p < parts; p++) {
            Quantised v = quantise_part(low, high);
            uint b = parts * (i / 4) + p;
            if (!there) continue;
            *(uint4*)(q + 64 * b + 16 * (i % 4)) = v.q;
            if (i % 4 == 0) s[b] = v.s;
        }
    }

    // fill quantises a row of the given number of blocks. read(i) returns values i to i+3. threads
    // is a multiple of 32. A thread issues the reads of four rounds before it uses them.
    template <int parts, class Read>
    __device__ void fill(Read read, uint blocks, uint thread, uint threads) {
        for (uint first = thread; first - thread % 32 < 4 * blocks; first += 4 * threads) {
            float4 v[4][2];
            UNROLL for (uint u = 0; u < 4; u++) {
                uint i = first + u * threads, at = i < 4 * blocks ? 32 * (i / 4) + 4 * (i % 4) : 0;
                v[u][0] = read(at);
                v[u][1] = read(at + 16);
            }
            UNROLL for (uint u = 0; u < 4; u++) {
                uint i = first + u * threads;
                if (i - thread % 32 >= 4 * blocks) break;
                put<parts>(i, i < 4 * blocks, v[u][0], v[u][1]);
            }
        }
    }

    // copy copies a quantised row from memory.
    __device__ void copy(const Packed<1>& from, uint blocks, uint thread, uint threads) {
        for (uint i = thread; i < 4 * blocks; i += threads) {
            *(uint4*)(q + 16 * i) = from.values(0, i / 4)[i % 4];
            if (i % 4 == 0) s[i / 4] = from.scale(0, i / 4);
        }
    }

    // bytes returns the shared memory of a row, rounded up so that another can follow.
    static __device__ uint bytes(uint blocks) { return (72 * blocks + 15) / 16 * 16; }
};

// Few multiplies four blocks of four strands with one or two columns (N) at once. A tensor core
// multiplies the weights of each block with 8 columns; columns 2j and 2j+1 are those of the j-th
// block, so the lanes with lane%4 == j receive its products. Each lane then scales one block. A
// warp takes S strands, 4 or 8, and reads U rounds of blocks before it uses the first.
template <class W, int M, int N, int S, int U>
struct Few {
    enum { groups = M, columns = N, warps = strands / S, fours = S / 4, values = fours * M * N * 2, complete = 0 };

    struct Four {
        typename W::Integers w[M][4];
        typename W::Raw k[M];
        uint4 x;
        float2 s[N];
    };

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        multiply(group, Packed<N>(x, blocks, row), blocks, warp, lane, sums);
    }

    template <class Group, class Source>
    __device__ void multiply(Group group, const Source& x, uint blocks, uint warp, uint lane, float (&sums)[values]) {
        const uchar* w[M];
        UNROLL for (uint m = 0; m < M; m++) w[m] = group(m);
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint longest = (blocks + strands - 1) / strands;
        for (uint first = 0; first < longest; first += U) {
            Four read[U][fours];
            bool own[U][fours];
            UNROLL for (uint u = 0; u < U * fours; u++) {
                if (u == 0 || first + u / fours < longest) own[u / fours][u % fours] = load(w, x, blocks, warp * S + u % fours * 4, first + u / fours, lane, read[u / fours][u % fours]);
            }
            UNROLL for (uint u = 0; u < U * fours; u++) {
                if (first + u / fours < longest) add(read[u / fours][u % fours], own[u / fours][u % fours], lane, sums + u % fours * M * N * 2);
            }
        }
    }

    // load reads the i-th blocks of four strands. It reports whether the lane's strand has that
    // block.
    template <class Source>
    static __device__ bool load(const uchar* const* w, const Source& x, uint blocks, uint strand, uint i, uint lane, Four& to) {
        UNROLL for (uint j = 0; j < 4; j++) {
            uint b = min(strand_begin(strand + j, blocks) + i, blocks - 1);
            UNROLL for (uint m = 0; m < M; m++) W::load(block<W>(super_block<W>(w[m], b), b), lane, to.w[m][j]);
        }
        uint column = lane / 4, q = lane % 4, b = strand_begin(strand + q, blocks) + i;
        bool own = b < strand_begin(strand + q + 1, blocks);
        b = min(b, blocks - 1);
        UNROLL for (uint m = 0; m < M; m++) {
            const uchar* super = super_block<W>(w[m], b);
            W::load_scales(block<W>(super, b), super, lane / 4, to.k[m]);
        }
        uint of_column = min(strand_begin(strand + column / 2, blocks) + i, blocks - 1);
        to.x = (N == 2 && column % 2 == 1 ? x.values(N - 1, of_column) : x.values(0, of_column))[q];
        UNROLL for (uint n = 0; n < N; n++) to.s[n] = x.scale(n, b);
        return own;
    }

    static __device__ void add(const Four& read, bool own, uint lane, float* sums) {
        UNROLL for (uint m = 0; m < M; m++) {
            Products<W> products;
            UNROLL for (uint j = 0; j < 4; j++) {
                uint a[8];
                W::values(read.w[m][j], a);
                products.take(Products<W>(a, read.x), j == 0 || lane % 4 == j);
            }
            Scales k = W::scales(read.k[m]);
            UNROLL for (uint n = 0; n < N; n++) {
                UNROLL for (uint i = 0; i < 2; i++) {
                    float& sum = sums[(m * N + n) * 2 + i];
                    if (own) sum = products.add(sum, 2 * i + n, i, W::offset, read.k[m], k, read.s[n]);
                }
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
        typename W::Integers w[M];
        typename W::Raw k[M];
        uint4 x;
        float2 s;
    };

    template <class Group, class Source>
    __device__ void multiply(Group group, const Source& x, uint blocks, uint warp, uint lane, float (&sums)[values]) {
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        UNROLL for (uint s = 0; s < S; s++) {
            uint begin = strand_begin(warp * S + s, blocks), end = strand_begin(warp * S + s + 1, blocks);
            for (uint first = begin; first < end; first += U) {
                Block read[U];
                UNROLL for (uint u = 0; u < U; u++) {
                    if (first + u < end) load(group, x, first + u, lane, read[u]);
                }
                UNROLL for (uint u = 0; u < U; u++) {
                    if (first + u < end) add(read[u], sums + s * M * 2);
                }
            }
        }
    }

    template <class Group, class Source>
    static __device__ void load(Group group, const Source& x, uint b, uint lane, Block& to) {
        UNROLL for (uint m = 0; m < M; m++) {
            const uchar* super = super_block<W>(group(m), b);
            W::load(block<W>(super, b), lane, to.w[m]);
            W::load_scales(block<W>(super, b), super, lane / 4, to.k[m]);
        }
        to.x = x.values(0, b)[lane % 4];
        to.s = x.scale(0, b);
    }

    static __device__ void add(const Block& read, float* sums) {
        UNROLL for (uint m = 0; m < M; m++) {
            uint a[8];
            W::values(read.w[m], a);
            Products<W> products(a, read.x);
            Scales k = W::scales(read.k[m]);
            UNROLL for (uint i = 0; i < 2; i++) sums[2 * m + i] = products.add(sums[2 * m + i], 2 * i, i, W::offset, read.k[m], k, read.s);
        }
    }

    static __device__ void put(const float (&sums)[values], Parts<N>& parts, uint m, uint warp, uint lane) {
        if (lane % 4 != 0) return;
        UNROLL for (uint i = 0; i < S * 2; i++) parts.at(warp * S + i / 2, 0, lane / 4 + 8 * (i % 2)) = sums[(i / 2 * M + m) * 2 + i % 2];
    }
};

// Tile multiplies many columns. Its R times C warps divide the results, not the strands: warp R*c+r
// takes groups r, R+r, ... (M in all) and tiles of 8 columns from T*c to T*c+T-1. Activations are
// staged in shared memory, some blocks ahead. The sums of finished strands are in shared memory
// too, since they are used only eight times: so more threadgroups run on a multiprocessor.
template <class W, int M, int T, int R, int C>
struct Tile {
    enum { own_groups = M, groups = M * R, columns = 8 * T * C, warps = R * C, values = M * T * 4, complete = 1 };
    enum { at_once = 2, stages = 3, threads = 32 * warps, parts = columns * 4 / threads };

    struct Stage {
        uint4 x[at_once][columns * 4];
        float2 s[at_once][columns];
    };
    struct Weights {
        typename W::Integers w[M];
        typename W::Raw k[M];
    };

    const uchar* w[M];
    const uchar* own[parts];  // what the thread stages of block 0: parts of values, and a scale
    const uchar* own_scale;

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        __shared__ Stage staging[stages];
        __shared__ float finished[values][threads];
        UNROLL for (uint m = 0; m < M; m++) w[m] = group(m * R + warp % R);
        UNROLL for (uint i = 0; i < parts; i++) {
            uint part = threadIdx.x + i * threads, r = row(part / 4);
            own[i] = x + ulong(r / 8) * blocks * column_bytes + 16 * (r % 8 * 4 + part % 4);
        }
        uint of_scale = row(min(threadIdx.x, uint(columns - 1)));
        own_scale = x + ulong(of_scale / 8) * blocks * column_bytes + 512 + 8 * (of_scale % 8);
        UNROLL for (uint i = 0; i < stages - 1; i++) stage_blocks(staging[i], i * at_once, blocks);
        float strand_sums[values];
        UNROLL for (uint i = 0; i < values; i++) strand_sums[i] = finished[i][threadIdx.x] = 0;
        Weights next;
        load(next, 0, lane);
        uint strand = 0, end = strand_begin(1, blocks), slot = 0;
        for (uint first = 0; first < blocks; first += at_once) {
            wait_but<stages - 2>();
            __syncthreads();
            stage_blocks(staging[slot == 0 ? stages - 1 : slot - 1], first + (stages - 1) * at_once, blocks);
            UNROLL for (uint u = 0; u < at_once; u++) {
                uint b = first + u;
                if (b >= blocks) break;
                while (b >= end) {
                    UNROLL for (uint i = 0; i < values; i++) finished[i][threadIdx.x] += strand_sums[i], strand_sums[i] = 0;
                    end = strand_begin(++strand + 1, blocks);
                }
                Weights read = next;
                if (b + 1 < blocks) load(next, b + 1, lane);
                add(read, staging[slot].x[u], staging[slot].s[u], warp / R, lane, strand_sums);
            }
            slot = slot == stages - 1 ? 0 : slot + 1;
        }
        UNROLL for (uint i = 0; i < values; i++) sums[i] = finished[i][threadIdx.x] + strand_sums[i];
    }

    __device__ void stage_blocks(Stage& to, uint first, uint blocks) const {
        UNROLL for (uint u = 0; u < at_once; u++) {
            if (first + u >= blocks) break;
            uint at = (first + u) * column_bytes;
            UNROLL for (uint i = 0; i < parts; i++) copy_early<16>(&to.x[u][threadIdx.x + i * threads], own[i] + at);
            if (threadIdx.x < columns) copy_early<8>(&to.s[u][threadIdx.x], own_scale + at);
        }
        copied();
    }

    __device__ void load(Weights& to, uint b, uint lane) const {
        UNROLL for (uint m = 0; m < M; m++) {
            const uchar* super = super_block<W>(w[m], b);
            W::load(block<W>(super, b), lane, to.w[m]);
            W::load_scales(block<W>(super, b), super, lane / 4, to.k[m]);
        }
    }

    static __device__ void add(const Weights& read, const uint4* staged_x, const float2* staged_s, uint c, uint lane, float* sums) {
        uint4 x[T];
        float2 s[T][2];
        UNROLL for (uint t = 0; t < T; t++) {
            x[t] = staged_x[(c * T + t) * 32 + lane];
            float4 both = *(const float4*)(staged_s + (c * T + t) * 8 + lane % 4 * 2);
            s[t][0] = make_float2(both.x, both.y), s[t][1] = make_float2(both.z, both.w);
        }
        UNROLL for (uint m = 0; m < M; m++) add_tiles<W, T>(read.w[m], read.k[m], x, s, sums + m * T * 4);
    }

    // each calls write(group, column, row, index) for each result of a lane in the first count
    // groups of its warp, where index is the result's index in sums.
    template <int count, class Write>
    static __device__ void each(uint warp, uint lane, Write write) {
        UNROLL for (uint m = 0; m < count; m++) {
            UNROLL for (uint i = 0; i < T * 4; i++) {
                write(m * R + warp % R, (warp / R * T + i / 4) * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2), m * T * 4 + i);
            }
        }
    }
};
