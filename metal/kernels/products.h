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

// Rows are rows of activations, one after another.
struct Rows {
    device const float* x;
    uint stride, count;
    device const float* row(uint j) const { return x + j * stride; }
};

// The activations of row_products have a member load, which writes those for the weights of chunk c
// of a row of n to v, and a member prepare, which is called before.

// Row is a row of activations that lanes read where it is.
struct Row {
    device const float* x;
    template <typename W>
    void prepare(uint) const {}
    template <typename W>
    void load(uint c, uint n, thread float* v) const { load_inputs<W>(x, c, n, v); }
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
        if (staged) return;
        stage<W>(n);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    template <typename W>
    void stage(uint n) const {
        constexpr uint together = 8;  // reads that are issued before the first use
        uint chunks = (n + 15) / 16, quarters = (chunks + strands - 1) / strands * 4 * strands;
        for (uint first = tid; first < quarters; first += together * threads) {
            float4 v[together];
            UNROLL for (uint j = 0; j < together; j++) {
                uint i = min(first + j * threads, quarters - 1), k = W::at(min(i / (4 * strands) * strands + i % strands, chunks - 1), i / strands % 4);
                v[j] = four_inputs<W>(x + k, k, n);
            }
            UNROLL for (uint j = 0; j < together; j++) {
                if (first + j * threads < quarters) store_four(shared + 4 * (first + j * threads), v[j].x, v[j].y, v[j].z, v[j].w);
            }
        }
    }
    template <typename W>
    void load(uint c, uint, thread float* v) const {
        threadgroup const float* from = shared + c / strands * 16 * strands + c % strands * 4;
        UNROLL for (uint i = 0; i < 4; i++) put(float4(*(threadgroup const float4*)(from + 4 * strands * i)), v + 4 * i);
    }
};

// fetch_chunks fetches chunk c and every eighth chunk after it, depth chunks in all, of R rows of
// each of M matrices. It fetches the last chunk of a row instead of chunks past it. If whole is
// true, there are none.
template <typename W, uint M, uint R, uint depth, bool whole>
inline void fetch_chunks(device const uchar* w0, device const uchar* w1, uint row_bytes, uint w_rows, uint n, uint c, uint chunks, thread typename W::Packed* packed) {
    UNROLL for (uint i = 0; i < depth * M * R; i++) {
        device const uchar* row = (i / R % M > 0 ? w1 : w0) + ulong(min(i % R, w_rows - 1)) * row_bytes;
        uint at = c + i / (M * R) * strands;
        packed[i] = W::fetch(row, whole ? at : min(at, chunks - 1), n);
    }
}

// add_chunks adds the products of a chunk of the rows that fetch_chunks has fetched to sums.
template <typename W, uint N, typename X>
inline void add_chunks(thread const typename W::Packed* packed, thread const X& x, uint n, uint c, thread float* sums) {
    float inputs[16];
    x.template load<W>(c, n, inputs);
    UNROLL for (uint i = 0; i < N; i++) {
        float weights[16];
        W::unpack(packed[i], c, weights);
        sums[i] = add_chunk(weights, inputs, sums[i]);
    }
}

// row_products multiplies R rows of weights of each team, of a matrix at w0 and, with M = 2, of one
// at w1, with a row of n activations: sums[m*R+r] is row r of matrix m times the row. The rows of
// weights may differ between teams. If w_rows < R, the last one is repeated. The next chunks of a
// lane are fetched before those that were fetched before are multiplied. There is no condition
// between the products of these, so that a compiler can mix the instructions of several chunks.
// The position of a chunk in its block is then known, too.
template <typename W, uint M, uint R, typename X>
inline void row_products(device const uchar* w0, device const uchar* w1, uint row_bytes, uint w_rows, thread const X& x, uint n, uint lane, thread float* sums) {
    constexpr uint each = M * R, depth = each < 4 ? 4 / each : 1, together = depth * strands;
    UNROLL for (uint i = 0; i < each; i++) sums[i] = 0;
    uint chunks = (n + 15) / 16, whole = chunks / together * together, own = lane % strands, first = 0;
    typename W::Packed packed[depth * each], next[depth * each];
    if (whole > 0) {
        fetch_chunks<W, M, R, depth, true>(w0, w1, row_bytes, w_rows, n, own, chunks, packed);
    } else {
        fetch_chunks<W, M, R, depth, false>(w0, w1, row_bytes, w_rows, n, own, chunks, packed);
    }
    x.template prepare<W>(n);
    for (; first < whole; first += together) {
        uint ahead = first + together;
        if (ahead < whole) {
            fetch_chunks<W, M, R, depth, true>(w0, w1, row_bytes, w_rows, n, ahead + own, chunks, next);
        } else if (ahead < chunks) {
            fetch_chunks<W, M, R, depth, false>(w0, w1, row_bytes, w_rows, n, ahead + own, chunks, next);
        }
        UNROLL for (uint i = 0; i < depth; i++) add_chunks<W, each>(packed + i * each, x, n, first + i * strands + own, sums);
        UNROLL for (uint i = 0; i < depth * each; i++) packed[i] = next[i];
    }
    UNROLL for (uint i = 0; i < depth; i++) {
        uint c = first + i * strands + own;
        if (c < chunks) add_chunks<W, each>(packed + i * each, x, n, c, sums);
    }
    strand_sums<each>(sums, lane);
}

// products multiplies R rows of weights of each team with N rows of activations, of which x_rows
// are given: sums[r*N+j] is row r of the weights at w times row j. w and w_rows may differ between
// teams. If w_rows < R or x_rows < N, the last row is repeated. A lane dequantises its chunks once
// for all rows of activations.
template <typename W, uint R, uint N>
inline void products(device const uchar* w, uint row_bytes, uint w_rows, device const float* x, uint x_stride, uint x_rows, uint n, uint lane, thread float* sums) {
    UNROLL for (uint i = 0; i < R * N; i++) sums[i] = 0;
    uint chunks = (n + 15) / 16;
    typename W::Packed packed[R], next[R];
    fetch_chunks<W, 1, R, 1, false>(w, w, row_bytes, w_rows, n, lane % strands, chunks, packed);
    for (uint c = lane % strands; c < chunks; c += strands) {
        if (c + strands < chunks) fetch_chunks<W, 1, R, 1, true>(w, w, row_bytes, w_rows, n, c + strands, chunks, next);
        float weights[R][16];
        UNROLL for (uint r = 0; r < R; r++) W::unpack(packed[r], c, weights[r]);
        UNROLL for (uint j = 0; j < N; j++) {
            float inputs[16];
            load_inputs<W>(x + min(j, x_rows - 1) * x_stride, c, n, inputs);
            UNROLL for (uint r = 0; r < R; r++) sums[r * N + j] = add_chunk(weights[r], inputs, sums[r * N + j]);
        }
        UNROLL for (uint r = 0; r < R; r++) packed[r] = next[r];
    }
    strand_sums<R * N>(sums, lane);
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
