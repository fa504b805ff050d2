// Products of rows of weights with a few rows of activations.
#include "bits.h"

// aligned_inputs is 1 if all rows of activations, and rows of float weights, are aligned to 16
// bytes.
CONSTANT(uint, aligned_inputs, 0)
#define ALIGNED_FLOATS (aligned_inputs != 0)
#include "quants.h"

// A simdgroup has four teams of eight lanes. The lanes of a team each sum a strand of the same rows
// of weights.
constant uint teams = 32 / strands;

// own_rows returns the first of the R rows of weights that the lane's team processes, of those that
// a simdgroup processes from row first on.
inline uint own_rows(uint first, uint lane, uint R) { return first + lane / strands * R; }

// four_inputs returns the four activations at x, which is position k of a row of n, with zeros past
// its end.
template <typename W>
inline float4 four_inputs(device const float* x, uint k, uint n) {
    if (aligned_inputs != 0) return W::block > 1 || k < n ? float4(*(device const float4*)x) : float4(0.0f);
    if (W::block > 1 || k + 4 <= n) return float4(*(device const packed_float4*)x);
    float v[4];
    UNROLL for (uint j = 0; j < 4; j++) v[j] = k + j < n ? x[j] : 0.0f;
    return float4(v[0], v[1], v[2], v[3]);
}

// load_inputs reads the activations for the weights of chunk c.
template <typename W>
inline void load_inputs(device const float* x, uint c, uint n, thread float* v) {
    UNROLL for (uint i = 0; i < 4; i++) {
        uint k = W::at(c, i);
        put(four_inputs<W>(x + k, k, n), v + 4 * i);
    }
}

// add_chunk adds the product of a chunk of weights and its inputs to a sum.
inline float add_chunk(thread const float* weights, thread const float* inputs, float sum) {
    UNROLL for (uint i = 0; i < 16; i++) sum = fma(weights[i], inputs[i], sum);
    return sum;
}

// strand_sums adds the strands of each of N values in order. The lanes of a team hold a strand
// each, and all of them receive the sum. A driver may define a faster version with the same order.
#if !defined(STRAND_SUMS)
template <uint N>
inline void strand_sums(thread float* v, uint lane) {
    uint first = lane / strands * strands;
    UNROLL for (uint i = 0; i < N; i++) {
        float sum = simd_shuffle(v[i], ushort(first));
        UNROLL for (uint s = 1; s < strands; s++) sum += simd_shuffle(v[i], ushort(first + s));
        v[i] = sum;
    }
}
#endif

// Rows are rows of activations, one after another. If a kernel processes more rows at once than
// there are, the last one is repeated.
//
// The inputs of a product have such a member load, which writes the activations of row j for the
// weights of chunk c to v, and a member prepare, which is called before.
struct Rows {
    device const float* x;
    uint stride, count;
    template <typename W>
    void load(uint j, uint c, uint n, thread float* v) const { load_inputs<W>(x + min(j, count - 1) * stride, c, n, v); }
    template <typename W>
    void prepare(uint) const {}
    device const float* row(uint j) const { return x + j * stride; }
};

// StagedRow is a row of activations that all threads of a threadgroup stage in threadgroup memory.
// Staged activations are ordered by eight chunks, quarter of a chunk, and chunk, so that the lanes
// of a team read what is next to each other. If staged is true, they have been staged before.
struct StagedRow {
    device const float* x;
    threadgroup float* shared;
    uint tid, threads;
    bool staged;
    template <typename W>
    void prepare(uint n) const {
        constexpr uint together = 8;  // reads that are issued before the first use
        uint chunks = (n + 15) / 16, quarters = (chunks + strands - 1) / strands * 4 * strands;
        for (uint first = tid; first < quarters && !staged; first += together * threads) {
            float4 v[together];
            UNROLL for (uint j = 0; j < together; j++) {
                uint i = min(first + j * threads, quarters - 1), k = W::at(min(i / (4 * strands) * strands + i % strands, chunks - 1), i / strands % 4);
                v[j] = four_inputs<W>(x + k, k, n);
            }
            UNROLL for (uint j = 0; j < together; j++) {
                if (first + j * threads < quarters) store_four(shared + 4 * (first + j * threads), v[j].x, v[j].y, v[j].z, v[j].w);
            }
        }
        if (!staged) threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    template <typename W>
    void load(uint, uint c, uint, thread float* v) const {
        threadgroup const float* from = shared + c / strands * 16 * strands + c % strands * 4;
        UNROLL for (uint i = 0; i < 4; i++) put(float4(*(threadgroup const float4*)(from + 4 * strands * i)), v + 4 * i);
    }
};

// add_products adds the products of chunk c of R rows of weights, which were fetched, and N rows of
// activations to sums; see products.
template <typename W, uint R, uint N, typename X>
inline void add_products(thread const typename W::Packed* packed, thread const X& x, uint n, uint c, thread float* sums) {
    if (N < R) {
        float inputs[N][16];
        UNROLL for (uint j = 0; j < N; j++) x.template load<W>(j, c, n, inputs[j]);
        UNROLL for (uint r = 0; r < R; r++) {
            float weights[16];
            W::unpack(packed[r], c, weights);
            UNROLL for (uint j = 0; j < N; j++) sums[r * N + j] = add_chunk(weights, inputs[j], sums[r * N + j]);
        }
    } else {
        float weights[R][16];
        UNROLL for (uint r = 0; r < R; r++) W::unpack(packed[r], c, weights[r]);
        UNROLL for (uint j = 0; j < N; j++) {
            float inputs[16];
            x.template load<W>(j, c, n, inputs);
            UNROLL for (uint r = 0; r < R; r++) sums[r * N + j] = add_chunk(weights[r], inputs, sums[r * N + j]);
        }
    }
}

// products multiplies R rows of weights of each team with N rows of activations: sums[r*N+j] is row
// r of the weights at w times row j of x. w and w_rows may differ between teams. A lane dequantises
// its chunks once for all N rows. If w_rows < R, the last row of weights is repeated. If there are
// fewer rows of weights than of activations, the weights are held in registers and the activations
// are read row by row. Otherwise, the activations are held in registers and the weights are read
// row by row. The next chunks are fetched before those that were fetched before are multiplied.
template <typename W, uint R, uint N, typename X>
inline void products(device const uchar* w, uint row_bytes, uint w_rows, thread const X& x, uint n, uint lane, thread float* sums) {
    constexpr uint depth = N < 4 && R < 4 ? 4 / R : 1;  // chunks that are fetched at once
    UNROLL for (uint i = 0; i < R * N; i++) sums[i] = 0;
    uint chunks = (n + 15) / 16;
    typename W::Packed packed[depth * R], next[depth * R];
    UNROLL for (uint i = 0; i < depth * R; i++) packed[i] = W::fetch(w + ulong(min(i % R, w_rows - 1)) * row_bytes, min(lane % strands + i / R * strands, chunks - 1), n);
    x.template prepare<W>(n);
    for (uint c = lane % strands; c < chunks; c += depth * strands) {
        uint ahead = c + depth * strands;
        UNROLL for (uint i = 0; i < depth * R; i++) {
            next[i] = packed[i];
            if (ahead < chunks) next[i] = W::fetch(w + ulong(min(i % R, w_rows - 1)) * row_bytes, min(ahead + i / R * strands, chunks - 1), n);
        }
        UNROLL for (uint i = 0; i < depth; i++) {
            if (c + i * strands < chunks) add_products<W, R, N>(packed + i * R, x, n, c + i * strands, sums);
        }
        UNROLL for (uint i = 0; i < depth * R; i++) packed[i] = next[i];
    }
    strand_sums<R * N>(sums, lane);
}

template <typename W, uint R, uint N>
inline void products(device const uchar* w, uint row_bytes, uint w_rows, device const float* x, uint x_stride, uint x_rows, uint n, uint lane, thread float* sums) {
    Rows rows = {x, x_stride, x_rows};
    products<W, R, N>(w, row_bytes, w_rows, rows, n, lane, sums);
}

// add_staged adds the products of the chunks from first to end of R rows of weights at w, and of
// staged activations, to sums. In packed are the lane's first chunks, and then its chunks from the
// parameter then of the rows at next, which are fetched during the last products.
template <typename W, uint R, uint N>
inline void add_staged(device const uchar* w, device const uchar* next, uint then, uint row_bytes, uint w_rows, uint count, uint n, uint first, uint end, threadgroup const float* shared, uint lane,
    thread typename W::Packed* packed, thread float* sums) {
    uint chunks = (n + 15) / 16, own = lane % strands;
    for (uint c = first + own; c < end; c += strands) {
        bool more = c + strands < end;
        uint ahead = more ? c + strands : then + own;
        typename W::Packed fetched[R];
        UNROLL for (uint r = 0; r < R; r++) {
            fetched[r] = packed[r];
            if (ahead < chunks) fetched[r] = W::fetch((more ? w : next) + ulong(min(r, w_rows - 1)) * row_bytes, ahead, n);
        }
        float weights[R][16];
        UNROLL for (uint r = 0; r < R; r++) W::unpack(packed[r], c, weights[r]);
        threadgroup const float* from = shared + (c - first) / strands * 16 * N * strands + 4 * own;
        UNROLL for (uint j = 0; j < N; j++) {
            if (j < count) {
                float inputs[16];
                UNROLL for (uint i = 0; i < 4; i++) put(float4(*(threadgroup const float4*)(from + 4 * strands * (i * N + j))), inputs + 4 * i);
                UNROLL for (uint r = 0; r < R; r++) sums[r * N + j] = add_chunk(weights[r], inputs, sums[r * N + j]);
            }
        }
        UNROLL for (uint r = 0; r < R; r++) packed[r] = fetched[r];
    }
}

// staged_products is products for one matrix at w0 or, with M = 2, also for the same rows of one at
// w1. All simdgroups of the threadgroup stage the activations in threadgroup memory:
// sums[(m*R+r)*N+j] is row r of matrix m times row j of the x.count rows at x. Staged activations
// are ordered by eight chunks, quarter of a chunk, row and chunk, so that the lanes of a team read
// what is next to each other. All threads of the threadgroup must call staged_products.
template <typename W, uint M, uint R, uint N, typename X>
inline void staged_products(device const uchar* w0, device const uchar* w1, uint row_bytes, uint w_rows, thread const X& x, uint n, threadgroup float* shared, uint tid, uint threads, uint lane, thread float* sums) {
    constexpr uint some = STAGED_FLOATS / (16 * N);  // chunks of a row that are staged at once
    UNROLL for (uint i = 0; i < M * R * N; i++) sums[i] = 0;
    uint chunks = (n + 15) / 16;
    typename W::Packed packed[R];
    UNROLL for (uint r = 0; r < R; r++) packed[r] = W::fetch(w0 + ulong(min(r, w_rows - 1)) * row_bytes, min(lane % strands, chunks - 1), n);
    for (uint first = 0; first < chunks; first += some) {
        uint end = min(first + some, chunks);
        if (first > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = tid; i < (end - first + strands - 1) / strands * 4 * strands; i += threads) {
            uint c = min(first + i / (4 * strands) * strands + i % strands, chunks - 1), k = W::at(c, i / strands % 4);
            UNROLL for (uint j = 0; j < N; j++) {
                if (j < x.count) {
                    float4 v = four_inputs<W>(x.row(j) + k, k, n);
                    store_four(shared + 4 * ((i / strands * N + j) * strands + i % strands), v.x, v.y, v.z, v.w);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        add_staged<W, R, N>(w0, M > 1 ? w1 : w0, M > 1 ? first : end, row_bytes, w_rows, x.count, n, first, end, shared, lane, packed, sums);
        if (M > 1) add_staged<W, R, N>(w1, w0, end, row_bytes, w_rows, x.count, n, first, end, shared, lane, packed, sums + (M - 1) * R * N);
    }
    strand_sums<M * R * N>(sums, lane);
}
