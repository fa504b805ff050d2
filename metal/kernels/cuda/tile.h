// Two algorithms for products of groups of weight rows with columns. A column is a row of
// activations. A team of warps takes M groups and some columns. The strands (see base.h) are
// divided among the team's warps, and their partial sums are joined in shared memory.
#include "activations.h"
#include "weights.h"

// add_block adds a block to a sum. v is the integer product, d and m are the scale and the minimum
// of the weights, x is the scale and the sum of the activations.
template <class W>
__device__ inline float add_block(float sum, float v, float d, float m, float2 x) {
    if (W::minimum) sum = fmaf(m, x.y, sum);
    return fmaf(d * x.x, v, sum);
}

// whole returns the integer product of a block whose halves have scales of 8 bits. It is exact.
template <class W>
__device__ inline float whole(const typename W::Registers& r, uint row, int low, int high) {
    return fmaf(half_scale<W>(r, row, 1), number(high), half_scale<W>(r, row, 0) * number(low));
}

// tree adds S strands of a warp. The sum is in the first strand.
template <int S, int All, int N>
__device__ inline void tree(float (&v)[All][N]) {
    if constexpr (S > 1) {
        UNROLL for (uint i = 0; i < S / 2 * N; i++) v[i / N][i % N] += v[i / N + S / 2][i % N];
        tree<S / 2>(v);
    }
}

// Parts are P partial sums of each of 16 rows and C columns, in shared memory.
template <int P, int C>
struct Parts {
    enum { stride = 20 }; // floats per column; lanes write to different banks
    float v[P][C * stride];

    __device__ float& at(uint part, uint column, uint row) { return v[part][column * stride + row]; }

    __device__ float sum(uint column, uint row) {
        float s[P];
        UNROLL for (uint i = 0; i < P; i++) s[i] = at(i, column, row);
        UNROLL for (uint half = P / 2; half > 0; half /= 2) {
            UNROLL for (uint i = 0; i < half; i++) s[i] += s[i + half];
        }
        return s[0];
    }
};

// Tensor multiplies with tensor cores. A team takes M groups and T tiles of 8 columns. A warp takes
// S strands and reads U blocks before it uses the first; a team has 8/S warps.
template <class W, int M, int T, int S, int U>
struct Tensor {
    enum { groups = M, columns = 8 * T, warps = strands / S, parts = warps, values = M * T * 4 };

    // Byte offsets in block 0 of the activations. own is for the lane's values, which are in column
    // lane/4 of each tile. scales is for the scales of columns 2q and 2q+1 with q = lane%4.
    uint own[T];
    uint scales[T][2];

    struct Block {
        typename W::Registers w[M];
        uint2 x[T];
        float2 s[T][2];
    };

    // multiply computes the warp's sums. row(c) is the row of activations of column c.
    template <class RowOf>
    __device__ void multiply(const uchar* const* w, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[M * T * 4]) {
        UNROLL for (uint t = 0; t < T; t++) {
            uint r = row(8 * t + lane / 4);
            own[t] = r / 8 * blocks * column_bytes + 8 * (r % 8 * 4 + lane % 4);
            UNROLL for (uint i = 0; i < 2; i++) {
                uint s = row(8 * t + lane % 4 * 2 + i);
                scales[t][i] = s / 8 * blocks * column_bytes + 256 + 8 * (s % 8);
            }
        }
        float v[S][M * T * 4];
        UNROLL for (uint i = 0; i < S * M * T * 4; i++) v[i / (M * T * 4)][i % (M * T * 4)] = 0;
        enum { at_once = S < U ? S : U, steps = U / at_once };
        for (uint first = warp; first < blocks; first += strands * steps) {
            UNROLL for (uint i = 0; i < S; i += at_once) {
                Block read[U];
                UNROLL for (uint u = 0; u < U; u++) {
                    uint b = first + strands * (u / at_once) + warps * (i + u % at_once);
                    if (b < blocks) load(w, x, b, lane, read[u]);
                }
                UNROLL for (uint u = 0; u < U; u++) {
                    uint b = first + strands * (u / at_once) + warps * (i + u % at_once);
                    if (b < blocks) add(read[u], v[i + u % at_once]);
                }
            }
        }
        tree<S>(v);
        UNROLL for (uint i = 0; i < M * T * 4; i++) sums[i] = v[0][i];
    }

    __device__ void load(const uchar* const* w, const uchar* x, uint b, uint lane, Block& read) const {
        UNROLL for (uint m = 0; m < M; m++) {
            const uchar* super = super_block<W>(w[m], b);
            W::load(block<W>(super, b), super, lane, read.w[m]);
        }
        x += b * column_bytes;
        UNROLL for (uint t = 0; t < T; t++) {
            read.x[t] = *(const uint2*)(x + own[t]);
            UNROLL for (uint i = 0; i < 2; i++) read.s[t][i] = *(const float2*)(x + scales[t][i]);
        }
    }

    // add adds the products of rows r and r+8 with columns 2q and 2q+1, where r is lane/4 and q is
    // lane%4.
    static __device__ void add(const Block& read, float (&sums)[M * T * 4]) {
        UNROLL for (uint m = 0; m < M; m++) {
            uint a[4];
            W::values(read.w[m], a);
            Scales k = W::scales(read.w[m]);
            UNROLL for (uint t = 0; t < T; t++) {
                int low[4], high[4];
                if (W::halves) {
                    dots16(low, a[0], a[1], read.x[t].x);
                    dots16(high, a[2], a[3], read.x[t].y);
                } else {
                    dots32(low, a, read.x[t]);
                }
                UNROLL for (uint i = 0; i < 4; i++) {
                    float v = W::halves ? whole<W>(read.w[m], i / 2, low[i], high[i]) : number(low[i]);
                    float& sum = sums[(m * T + t) * 4 + i];
                    sum = add_block<W>(sum, v, i < 2 ? k.d0 : k.d1, i < 2 ? k.m0 : k.m1, read.s[t][i % 2]);
                }
            }
        }
    }

    // put writes a lane's sums of group m.
    static __device__ void put(const float (&sums)[M * T * 4], Parts<warps, 8 * T>& parts, uint m, uint warp, uint lane) {
        UNROLL for (uint i = 0; i < T * 4; i++) parts.at(warp, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2)) = sums[m * T * 4 + i];
    }
};

// dot4 adds the products of four signed bytes each.
__device__ inline int dot4(uint a, uint b, int sum) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
    return r;
}

// Packed has N quantised rows of activations in memory. Offsets are bytes in block 0.
template <int N>
struct Packed {
    const uchar* x;
    uint own[N], scales[N];

    template <class Row>
    __device__ Packed(const uchar* from, uint blocks, Row row) : x(from) {
        UNROLL for (uint n = 0; n < N; n++) {
            uint r = row(n), group = r / 8 * blocks * column_bytes;
            own[n] = group + r % 8 * 32;
            scales[n] = group + 256 + r % 8 * 8;
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

    __device__ Row(void* shared, uint blocks) : q((uchar*)shared), s((float2*)((uchar*)shared + 32 * blocks)) {}
    __device__ const uint4* values(uint, uint b) const { return (const uint4*)(q + 32 * b); }
    __device__ float2 scale(uint, uint b) const { return s[b]; }

    // put stores values 8i to 8i+7 of the packed order, which four neighbouring lanes have
    // quantised together.
    __device__ void put(uint i, const Quantised& v) {
        *(uint2*)(q + 8 * i) = v.q;
        if (i % 4 == 0) s[i / 4] = make_float2(v.d, v.sum);
    }

    // fill quantises a row. read(i) returns values i to i+3. threads is a multiple of 32. A thread
    // issues the reads of four rounds before it uses them.
    template <class Read>
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
                Quantised r = quantise(v[u][0], v[u][1]);
                if (i < 4 * blocks) put(i, r);
            }
        }
    }

    // copy copies a quantised row from memory.
    __device__ void copy(const Packed<1>& from, uint blocks, uint thread, uint threads) {
        for (uint i = thread; i < 2 * blocks; i += threads) {
            *(uint4*)(q + 16 * i) = from.values(0, i / 2)[i % 2];
            if (i % 2 == 0) s[i / 2] = from.scale(0, i / 2);
        }
    }

    // bytes returns the shared memory of a row, rounded up so that another can follow.
    static __device__ uint bytes(uint blocks) { return (40 * blocks + 15) / 16 * 16; }
};

// Lanes multiplies with dp4a. For few columns (N) this takes fewer instructions than tensor cores.
// Lane 8j+r takes rows r and r+8 of every fourth block: with S = 8, the blocks of strands j and
// j+4; with S = 4, those of one of the two. A team has 8/S warps. A warp reads U rounds of blocks
// before it uses the first.
template <class W, int M, int N, int S, int U>
struct Lanes {
    enum { groups = M, columns = N, warps = strands / S, halves = S / 4, parts = 4 * warps, values = M * N * 2 };

    struct Block {
        typename W::Registers w[M][4];
        uint4 x[N][2];
        float2 s[N];
    };

    template <class RowOf>
    __device__ void multiply(const uchar* const* w, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[M * N * 2]) {
        multiply(w, Packed<N>(x, blocks, row), blocks, warp, lane, sums);
    }

    template <class Source>
    __device__ void multiply(const uchar* const* w, const Source& x, uint blocks, uint warp, uint lane, float (&sums)[M * N * 2]) {
        float v[halves][M * N * 2];
        UNROLL for (uint i = 0; i < halves * M * N * 2; i++) v[i / (M * N * 2)][i % (M * N * 2)] = 0;
        for (uint first = warp * 4 + lane / 8; first < blocks; first += strands * U) {
            Block read[U][halves];
            UNROLL for (uint u = 0; u < U * halves; u++) {
                uint b = first + strands * (u / halves) + 4 * (u % halves);
                if (b < blocks) {
                    Block& to = read[u / halves][u % halves];
                    UNROLL for (uint m = 0; m < M; m++) {
                        const uchar* super = super_block<W>(w[m], b);
                        W::load4(block<W>(super, b), super, lane % 8, to.w[m]);
                    }
                    UNROLL for (uint n = 0; n < N; n++) {
                        to.s[n] = x.scale(n, b);
                        to.x[n][0] = x.values(n, b)[0];
                        to.x[n][1] = x.values(n, b)[1];
                    }
                }
            }
            UNROLL for (uint u = 0; u < U * halves; u++) {
                if (first + strands * (u / halves) + 4 * (u % halves) < blocks) add(read[u / halves][u % halves], v[u % halves]);
            }
        }
        tree<halves>(v);
        UNROLL for (uint i = 0; i < M * N * 2; i++) sums[i] = v[0][i];
    }

    static __device__ void add(const Block& read, float (&sums)[M * N * 2]) {
        UNROLL for (uint m = 0; m < M; m++) {
            int low[N][2], high[N][2];
            UNROLL for (uint i = 0; i < 2 * N; i++) low[i / 2][i % 2] = high[i / 2][i % 2] = MAGIC_BITS;
            UNROLL for (uint q = 0; q < 4; q++) {
                uint a[4];
                W::values(read.w[m][q], a);
                UNROLL for (uint n = 0; n < N; n++) {
                    uint4 x = read.x[n][q / 2];
                    UNROLL for (uint i = 0; i < 2; i++) {
                        low[n][i] = dot4(a[i], q % 2 == 0 ? x.x : x.z, low[n][i]);
                        int& rest = W::halves ? high[n][i] : low[n][i];
                        rest = dot4(a[2 + i], q % 2 == 0 ? x.y : x.w, rest);
                    }
                }
            }
            Scales k = W::scales(read.w[m][0]);
            UNROLL for (uint n = 0; n < N; n++) {
                UNROLL for (uint i = 0; i < 2; i++) {
                    float v = W::halves ? whole<W>(read.w[m][0], i, low[n][i], high[n][i]) : number(low[n][i]);
                    float& sum = sums[(m * N + n) * 2 + i];
                    sum = add_block<W>(sum, v, i == 0 ? k.d0 : k.d1, i == 0 ? k.m0 : k.m1, read.s[n]);
                }
            }
        }
    }

    static __device__ void put(const float (&sums)[M * N * 2], Parts<4 * warps, N>& parts, uint m, uint warp, uint lane) {
        UNROLL for (uint i = 0; i < N * 2; i++) parts.at(4 * warp + lane / 8, i / 2, lane % 8 + 8 * (i % 2)) = sums[m * N * 2 + i];
    }
};
