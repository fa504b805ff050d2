// The mixture of experts: routing, and the products of the chosen experts. The backend instantiates
// the templates that its geometry chooses.
#include "quants.h"

struct RouteArgs {
    uint n;         // weights per row of the router
    uint row_bytes;
    uint experts;
    uint used;      // experts per row
    uint x_stride;
    uint dst_stride;
    uint sigmoid;   // 1 for sigmoid, 0 for softmax
    uint normalise;
    uint biased;      // 0 for no bias, 1 if the bias is added to probabilities, 2 if it is added to logits
    float scale;
};

constant float min_score = -3.0e38f;  // lowest score of an expert that can be chosen; also replaces NaN

// route writes the indices of a row's experts, best first, and then their weights. A threadgroup
// processes a row, and each of its simdgroups R experts at once. shared has two floats per expert.
template <typename W, uint R>
kernel void route(
    device const uchar* router [[buffer(0)]],
    device const float* bias [[buffer(1)]],
    device const float* x [[buffer(2)]],
    device float* dst [[buffer(3)]],
    constant RouteArgs& args [[buffer(4)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float* probabilities = shared;
    threadgroup float* scores = shared + args.experts;
    x += group.x * args.x_stride;
    dst += group.x * args.dst_stride;
    for (uint e = simdgroup * R; e < args.experts; e += simdgroups * R) {
        float logits[R];
        products<W, R, 1>(router + ulong(e) * args.row_bytes, args.row_bytes, args.experts - e, x, args.x_stride, 1, args.n, lane, logits);
        UNROLL for (uint r = 0; r < R; r++) {
            if (lane == r && e + r < args.experts) probabilities[e + r] = logits[r];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup > 0) return;

    // From here on, each lane reads and writes only experts e with e%32 == lane.
    float best = -INFINITY;
    if (args.biased == 2) {
        for (uint e = lane; e < args.experts; e += 32) probabilities[e] += bias[e];
    }
    for (uint e = lane; e < args.experts; e += 32) best = max(best, probabilities[e]);
    best = simd_max(best);
    float sum = 0;
    for (uint e = lane; e < args.experts; e += 32) {
        float p = args.sigmoid != 0 ? 1.0f / (1.0f + exp(-probabilities[e])) : exp(probabilities[e] - best);
        probabilities[e] = p;
        sum += p;
    }
    sum = tree_sum(sum);
    for (uint e = lane; e < args.experts; e += 32) {
        if (args.sigmoid == 0) probabilities[e] /= sum;
        float score = probabilities[e] + (args.biased == 1 ? bias[e] : 0.0f);
        scores[e] = score > min_score ? score : min_score;
    }
    float weights = 0;
    for (uint k = 0; k < args.used; k++) {
        float own = -INFINITY;
        uint index = 0xffffffff;
        for (uint e = lane; e < args.experts; e += 32) {
            if (scores[e] > own) {
                own = scores[e];
                index = e;
            }
        }
        float top = simd_max(own);
        uint chosen = simd_min(own == top ? index : 0xffffffff);
        float p = 0;
        if (chosen % 32 == lane) {
            p = probabilities[chosen];
            scores[chosen] = -INFINITY;
        }
        p = simd_broadcast(p, ushort(chosen % 32));
        weights += p;
        if (lane == 0) {
            dst[k] = float(chosen);
            dst[args.used + k] = p;
        }
    }
    float scale = args.normalise != 0 ? args.scale / (weights + 1e-20f) : args.scale;
    if (lane == 0) {
        for (uint k = 0; k < args.used; k++) dst[args.used + k] *= scale;
    }
}

struct GatedExpertsArgs {
    uint n;
    uint row_bytes;
    uint out;           // rows of an expert's weights
    uint used;
    uint shared_out;    // rows of the shared experts' weights; 0 if there are none
    uint x_stride;
    uint routing_stride;
    uint dst_stride;
    uint groups;        // threadgroups per expert
    uint activation;
    uint biased;        // 1 if the routed experts have biases
};

// gated_experts writes the activations of gate·x and up·x of a row's chosen experts one after
// another, then of the shared experts. Grid: (used*groups + groups of the shared experts, rows).
template <typename W, uint R>
kernel void gated_experts(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const uchar* shared_gate [[buffer(2)]],
    device const uchar* shared_up [[buffer(3)]],
    device const float* x [[buffer(4)]],
    device const float* routing [[buffer(5)]],
    device float* dst [[buffer(6)]],
    device const float* gate_bias [[buffer(7)]],
    device const float* up_bias [[buffer(8)]],
    constant GatedExpertsArgs& args [[buffer(9)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint k = min(group.x / args.groups, args.used), out = args.out;
    uint first = ((group.x - k * args.groups) * simdgroups + simdgroup) * R;
    if (k == args.used) {
        gate = shared_gate;
        up = shared_up;
        out = args.shared_out;
    }
    if (first >= out) return;
    ulong at = first;
    if (k < args.used) at += ulong(routing[group.y * args.routing_stride + k]) * out;
    bool biased = args.biased != 0 && k < args.used;
    gate_bias += at;
    up_bias += at;
    at *= args.row_bytes;
    x += group.y * args.x_stride;
    dst += group.y * args.dst_stride + k * args.out + first;
    float g[R], u[R];
    products<W, R, 1>(gate + at, args.row_bytes, out - first, x, args.x_stride, 1, args.n, lane, g);
    products<W, R, 1>(up + at, args.row_bytes, out - first, x, args.x_stride, 1, args.n, lane, u);
    UNROLL for (uint r = 0; r < R; r++) {
        if (lane == r && first + r < out) dst[r] = activate(args.activation, biased ? g[r] + gate_bias[r] : g[r], biased ? u[r] + up_bias[r] : u[r]);
    }
}

struct ExpertsAddArgs {
    uint n;                // weights per row of an expert
    uint row_bytes;
    uint out;
    uint used;
    uint shared_n;         // weights per row of the shared experts; 0 if there are none
    uint shared_row_bytes;
    uint h_stride;
    uint routing_stride;
    uint dst_stride;
    uint biased;           // 1 if the routed experts have biases
};

// experts_add adds the weighted down products of a row's experts, and their biases, to dst, in the
// order of the routing. The shared experts are last. Grid: (groups of rows of weights, rows).
template <typename W, uint R>
kernel void experts_add(
    device const uchar* down [[buffer(0)]],
    device const uchar* shared_down [[buffer(1)]],
    device const float* h [[buffer(2)]],
    device const float* routing [[buffer(3)]],
    device float* dst [[buffer(4)]],
    device const float* bias [[buffer(5)]],
    constant ExpertsAddArgs& args [[buffer(6)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint first = (group.x * simdgroups + simdgroup) * R;
    if (first >= args.out) return;
    routing += group.y * args.routing_stride;
    h += group.y * args.h_stride;
    dst += group.y * args.dst_stride + first;
    float sums[R], p[R];
    UNROLL for (uint r = 0; r < R; r++) sums[r] = 0;
    for (uint k = 0; k < args.used; k++) {
        device const uchar* w = down + (ulong(routing[k]) * args.out + first) * args.row_bytes;
        products<W, R, 1>(w, args.row_bytes, args.out - first, h + k * args.n, args.h_stride, 1, args.n, lane, p);
        float weight = routing[args.used + k];
        device const float* own = bias + uint(routing[k]) * args.out + first;
        UNROLL for (uint r = 0; r < R; r++) {
            if (args.biased != 0 && first + r < args.out) p[r] += own[r];
            sums[r] = fma(weight, p[r], sums[r]);
        }
    }
    UNROLL for (uint r = 0; r < R; r++) {
        if (lane == r && first + r < args.out) dst[r] += sums[r];
    }
    if (args.shared_n == 0) return;
    device const uchar* w = shared_down + ulong(first) * args.shared_row_bytes;
    products<W, R, 1>(w, args.shared_row_bytes, args.out - first, h + args.used * args.n, args.h_stride, 1, args.shared_n, lane, p);
    UNROLL for (uint r = 0; r < R; r++) {
        if (lane == r && first + r < args.out) dst[r] += p[r];
    }
}
