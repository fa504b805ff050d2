// What kernels of attention share: their arguments, tiles, and the weights of a split.
#include "activations.h"
#include "cachepages.h"
#include "join.h"

struct AttentionArgs {
    uint heads;
    uint kv_heads;
    uint key_dim;     // a multiple of 8
    uint value_dim;   // a multiple of 8
    uint q_stride;
    uint dst_stride;
    uint page_size;
    uint latent;      // 1 if values are the leading values of keys, as in MLA
    uint splits;      // splits per row and head that are stored in memory, if several threadgroups compute them
    float scale;
    uint window;      // maximum number of positions to which a row attends; 0 for all
    uint sinks;       // 1 if each query head has a sink: a score that is part of the softmax and has no value
    uint first;       // the first split that is stored in memory
    uint quantised;   // 1 if the results are also written as activations
    uint each;        // splits per threadgroup if they are stored in memory; attention.cu takes one
};

// PairTile describes count pairs of a sequence, beginning with pair first. row is the first row of
// the sequence.
struct PairTile {
    uint row, first, count;
};

// query_stride returns the number of float16 values from one query to the next in shared memory.
// Neighbouring queries are in different banks. padded is the number of values of a query, rounded
// up to a multiple of 32.
__device__ inline uint query_stride(uint padded) { return padded + (padded / 32 % 2 == 0 ? 32 : 0); }

// Weights are those of a lane's four positions in float16, with the largest score of a warp's
// positions, and the sum of their weights.
struct Weights {
    uint2 halves;
    float most, sum;
};

// weigh computes the weights exp(score-most) of a split, of which a lane has four scores.
__device__ inline Weights weigh(const float (&s)[4]) {
    float most = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    UNROLL for (uint k = 16; k > 0; k /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, k));
    uint w[2] = {0, 0};
    if (most > lowest()) {
        w[0] = two_halves(expf(s[0] - most), expf(s[1] - most));
        w[1] = two_halves(expf(s[2] - most), expf(s[3] - most));
    }
    float sum = half_float(w[0] & 0xffff) + half_float(w[0] >> 16) + (half_float(w[1] & 0xffff) + half_float(w[1] >> 16));
    UNROLL for (uint k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
    return {make_uint2(w[0], w[1]), most, sum};
}
