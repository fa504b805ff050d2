// Products of rows of weights with a few rows of activations.
#include "quants.h"

// aligned_inputs is 1 if all rows of activations are aligned to 16 bytes.
CONSTANT(uint, aligned_inputs, 0)

// A simdgroup has four teams of eight lanes. The lanes of a team each sum a strand of the same rows
// of weights.
constant uint teams = 32 / strands;

// own_rows returns the first of the R rows of weights that the lane's team processes, of those that
// a simdgroup processes from row first on.
inline uint own_rows(uint first, uint lane, uint R) { return first + lane / strands * R; }

// load_inputs reads the activations for the weights of chunk c.
template <typename W>
inline void load_inputs(device const float* x, uint c, uint n, thread float* v) {
    UNROLL for (uint i = 0; i < 4; i++) {
        uint k = W::at(c, i);
        if (W::block > 1 && aligned_inputs != 0) {
            put(float4(*(device const float4*)(x + k)), v + 4 * i);
        } else if (W::block > 1 || k + 4 <= n) {
            put(float4(*(device const packed_float4*)(x + k)), v + 4 * i);
        } else {
            UNROLL for (uint j = 0; j < 4; j++) v[4 * i + j] = k + j < n ? x[k + j] : 0.0f;
        }
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
// weights of chunk c to v.
struct Rows {
    device const float* x;
    uint stride, count;
    template <typename W>
    void load(uint j, uint c, uint n, thread float* v) const { load_inputs<W>(x + min(j, count - 1) * stride, c, n, v); }
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
