// Recurrent layers on generated rows, one of each sequence: the convolution, and the gated delta
// rule. The bits are those of delta_step in recurrence.metal: a sum over keys has a part for each
// half of them and each remainder of four, in ascending order. Then ((0 + 1) + (2 + 3)) of the
// first half are added to those of the second.
#include "activations.h"

// StateSlot describes a sequence's row and its state, as in states.h.
struct StateSlot {
    uint row, rows, drafts;
    int from;  // slot of the state before the row; -1 for a state of zeros
    uint to;   // slot in which the state is left
    uint accepted, before;
};

struct ConvolveArgs {
    uint cols;  // a multiple of 4
    uint x_stride;
    uint dst_stride;
    uint room;    // rows per slot, of which the first taps-1 are the state
    uint biased;  // 1 if there is a bias
};

struct DeltaArgs {
    uint stride;         // of rows of queries, keys and values, which are side by side
    uint gate_stride;
    uint dst_stride;
    uint key_heads;
    uint heads;
    uint grouped;        // 1 if consecutive heads read the same key head
    uint early;          // 1 if the kernel before this one does not write what this one reads of the states
    uint normed;         // 1 if the results are normalised and multiplied by a gate, as in gated_norm
    uint factor_stride;  // of the gates of the norm
    uint quantised;      // 1 if the results are also written as activations
    float eps;
    float norm_eps;
};

// state_dim is the number of values of a key, and of a value, of a head.
enum { state_dim = STATE_DIM, state_warps = 8, own_keys = state_dim / state_warps };

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ inline float softplus(float x) {
    float e = expf(-fabsf(x)), u = 1.0f + e;
    float log1p = u == 1.0f ? e : logf(u) * e / (u - 1.0f);
    return fmaxf(x, 0.0f) + log1p;
}

__device__ inline float4 times(float4 v, float by) { return make_float4(v.x * by, v.y * by, v.z * by, v.w * by); }

// plus_scaled returns a·b + c.
__device__ inline float4 plus_scaled(float4 a, float b, float4 c) {
    return make_float4(fmaf(a.x, b, c.x), fmaf(a.y, b, c.y), fmaf(a.z, b, c.z), fmaf(a.w, b, c.w));
}

// taps is the number of rows of a convolution that convolve_step takes, its own included.
enum { taps = 4 };

// convolve_step is convolve of states.metal for one row of each sequence. A thread has four
// columns. It reads the rows before the sequence's own before the kernel before has ended. That
// kernel alone can still run, since kernels call start_next after their own wait, and it writes no
// states of this layer. Grid: (columns / (4·threads), sequences).
extern "C" __global__ void __launch_bounds__(128) convolve_step(const float* x, const float* w, const float* bias, const StateSlot* slots, float* states, float* dst,
                                                                ConvolveArgs args) {
    uint col = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    bool inside = col < args.cols;
    StateSlot at = slots[blockIdx.y];
    const float4 zero = make_float4(0, 0, 0, 0);
    float4 of_column[4], v[taps], sum = zero;
    if (inside) {
        const float* history = states + ulong(max(at.from, 0)) * args.room * args.cols + col;
        UNROLL for (uint j = 0; j < taps - 1; j++) v[j] = at.from >= 0 ? read_four(history + j * args.cols) : zero;
        UNROLL for (uint i = 0; i < 4; i++) of_column[i] = read_four(w + taps * (col + i));
        if (args.biased != 0) sum = read_four(bias + col);
    }
    wait_for_previous();
    if (!inside) return;
    v[taps - 1] = read_four(x + ulong(at.row) * args.x_stride + col);
    UNROLL for (uint j = 0; j < taps; j++) {
        auto weight = [&](uint i) { return j == 0 ? of_column[i].x : j == 1 ? of_column[i].y : j == 2 ? of_column[i].z : of_column[i].w; };
        sum = make_float4(fmaf(weight(0), v[j].x, sum.x), fmaf(weight(1), v[j].y, sum.y), fmaf(weight(2), v[j].z, sum.z), fmaf(weight(3), v[j].w, sum.w));
    }
    write_four(dst + ulong(at.row) * args.dst_stride + col, make_float4(sum.x * sigmoid(sum.x), sum.y * sigmoid(sum.y), sum.z * sigmoid(sum.z), sum.w * sigmoid(sum.w)));
    float* to = states + ulong(at.to) * args.room * args.cols + col;
    UNROLL for (uint j = 0; j < taps - 1; j++) write_four(to + j * args.cols, v[j + 1]);
}

// SumParts has the parts of sums over keys, for each column of a matrix.
struct SumParts {
    float4 of[state_warps][state_dim / 4];

    // sum returns the sum of a column, and four_sums those of four columns.
    __device__ float sum(uint column) const {
        auto part = [&](uint i) { return ((const float*)of[i])[column]; };
        return ((part(0) + part(1)) + (part(2) + part(3))) + ((part(4) + part(5)) + (part(6) + part(7)));
    }
    __device__ float4 four_sums(uint i) const {
        return plus_four(plus_four(plus_four(of[0][i], of[1][i]), plus_four(of[2][i], of[3][i])), plus_four(plus_four(of[4][i], of[5][i]), plus_four(of[6][i], of[7][i])));
    }
};

struct HeadNormArgs {
    uint runs;  // per row
    uint x_stride;
    uint gate_stride;
    uint dst_stride;
    float eps;
};

// head_scale returns the factor of the norm of state_dim values, of which a lane has every 32nd.
__device__ inline float head_scale(const float (&v)[state_dim / 32], float eps) {
    float sum = 0;
    UNROLL for (uint i = 0; i < state_dim / 32; i++) sum = fmaf(v[i], v[i], sum);
    return 1.0f / sqrtf(warp_sum(sum) / float(state_dim) + eps);
}
__device__ inline float gated_value(float v, float scale, float gain, float gate) { return v * scale * gain * (gate * sigmoid(gate)); }

// gated_norm_quantise is gated_norm of states.metal for runs of state_dim values with a gain each,
// and a gate after the norm. It also quantises the result. A warp takes a run. Grid: (runs / 4,
// rows).
extern "C" __global__ void __launch_bounds__(128) gated_norm_quantise(const float* x, const float* gate, const float* gain, float* dst, uchar* packed, HeadNormArgs args) {
    uint lane = threadIdx.x % 32, run = blockIdx.x * 4 + threadIdx.x / 32, row = blockIdx.y, first = run * state_dim + lane;
    wait_for_previous();
    if (run >= args.runs) return;
    float v[state_dim / 32], by[state_dim / 32];
    UNROLL for (uint i = 0; i < state_dim / 32; i++) v[i] = x[ulong(row) * args.x_stride + first + 32 * i], by[i] = gate[ulong(row) * args.gate_stride + first + 32 * i];
    float scale = head_scale(v, args.eps);
    UNROLL for (uint i = 0; i < state_dim / 32; i++) {
        v[i] = gated_value(v[i], scale, gain[lane + 32 * i], by[i]);
        dst[ulong(row) * args.dst_stride + first + 32 * i] = v[i];
        store_value(packed, row, args.runs * (state_dim / 32), first + 32 * i, v[i]);
    }
}

// delta_step computes a head of a sequence's row. Each warp takes the keys of a part of the sums,
// and each of its lanes four columns. The head's matrix is in registers. It is read before the
// kernel before has ended, unless that writes states. Grid: (heads, sequences).
extern "C" __global__ void __launch_bounds__(32 * state_warps, 2) delta_step(const float* qkv, const float* gates, const float* decay, const float* bias, const StateSlot* slots,
                                                                float* matrices, const float* factors, const float* gain, float* dst, uchar* packed, DeltaArgs args) {
    __shared__ float4 keys[state_warps][own_keys / 4], queries[state_warps][own_keys / 4];
    __shared__ SumParts known, results;
    uint lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = blockIdx.x;
    StateSlot at = slots[blockIdx.y];
    const float4 zero = make_float4(0, 0, 0, 0);
    uint first = (warp / 4 * (state_dim / 2) + warp % 4) * (state_dim / 4) + lane; // of the lane's columns of the warp's keys, which are four rows apart
    ulong values = state_dim * state_dim;
    const float4* from = (const float4*)(matrices + (ulong(max(at.from, 0)) * args.heads + head) * values) + first;
    if (args.early == 0) wait_for_previous(false);
    float4 state[own_keys];
    UNROLL for (uint i = 0; i < own_keys; i++) state[i] = at.from >= 0 ? from[i * state_dim] : zero;
    if (args.early != 0) wait_for_previous(false);

    uint key_head = args.grouped != 0 ? head / (args.heads / args.key_heads) : head % args.key_heads, of_keys = args.key_heads * state_dim;
    qkv += ulong(at.row) * args.stride;
    gates += ulong(at.row) * args.gate_stride + head;
    float4 value = read_four(qkv + 2 * of_keys + head * state_dim + 4 * lane);
    float beta = sigmoid(gates[0]), step = softplus(gates[args.heads] + bias[head]), factor = expf(decay[head] * step);
    if (warp < 2) { // the first one stages the key, the second one the query
        const float* x = qkv + (warp == 0 ? of_keys : 0) + key_head * state_dim + lane;
        float v[state_dim / 32], sum = 0, length = warp == 0 ? 1.0f : 1.0f / sqrtf(float(state_dim));
        UNROLL for (uint i = 0; i < state_dim / 32; i++) v[i] = x[32 * i], sum = fmaf(v[i], v[i], sum);
        float scale = length * (1.0f / sqrtf(warp_sum(sum) + args.eps));
        float* to = (float*)(warp == 0 ? keys : queries);
        UNROLL for (uint i = 0; i < state_dim / 32; i++) {
            uint k = lane + 32 * i, half = k / (state_dim / 2);
            to[(4 * half + k % 4) * own_keys + k % (state_dim / 2) / 4] = v[i] * scale;
        }
    }
    float gate[state_dim / 32], by[state_dim / 32]; // what the first warp multiplies the results by
    if (warp == 0 && args.normed != 0) {
        factors += ulong(at.row) * args.factor_stride + head * state_dim + lane;
        UNROLL for (uint i = 0; i < state_dim / 32; i++) gate[i] = factors[32 * i], by[i] = gain[lane + 32 * i];
    }
    __syncthreads();
    UNROLL for (uint i = 0; i < own_keys; i++) state[i] = times(state[i], factor);
    float4 sum = zero;
    UNROLL for (uint i = 0; i < own_keys; i += 4) {
        float4 key = keys[warp][i / 4];
        sum = plus_scaled(state[i], key.x, sum);
        sum = plus_scaled(state[i + 1], key.y, sum);
        sum = plus_scaled(state[i + 2], key.z, sum);
        sum = plus_scaled(state[i + 3], key.w, sum);
    }
    known.of[warp][lane] = sum;
    __syncthreads();
    float4 before = known.four_sums(lane);
    float4 change = make_float4(beta * (value.x - before.x), beta * (value.y - before.y), beta * (value.z - before.z), beta * (value.w - before.w));
    float4* to = (float4*)(matrices + (ulong(at.to) * args.heads + head) * values) + first;
    float4 result = zero;
    auto update = [&](uint i, float key, float query) {
        to[i * state_dim] = state[i] = plus_scaled(change, key, state[i]);
        result = plus_scaled(state[i], query, result);
    };
    UNROLL for (uint i = 0; i < own_keys; i += 4) {
        float4 key = keys[warp][i / 4], query = queries[warp][i / 4];
        update(i, key.x, query.x);
        update(i + 1, key.y, query.y);
        update(i + 2, key.z, query.z);
        update(i + 3, key.w, query.w);
    }
    results.of[warp][lane] = result;
    start_next();
    __syncthreads();
    if (warp > 0) return;

    float v[state_dim / 32];
    UNROLL for (uint i = 0; i < state_dim / 32; i++) v[i] = results.sum(lane + 32 * i);
    float scale = args.normed != 0 ? head_scale(v, args.norm_eps) : 1.0f;
    UNROLL for (uint i = 0; i < state_dim / 32; i++) {
        uint column = head * state_dim + lane + 32 * i;
        if (args.normed != 0) v[i] = gated_value(v[i], scale, by[i], gate[i]);
        dst[ulong(at.row) * args.dst_stride + column] = v[i];
        if (args.quantised != 0) store_value(packed, at.row, args.heads * (state_dim / 32), column, v[i]);
    }
}
