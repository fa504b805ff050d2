// What the kernels of a mixture of experts share.
//
// A choice is a row and one of its experts; its number is row*slots + k. The shared experts, if
// they have the type of the routed ones, are one more expert, which every row chooses last: expert
// number args.experts, k = args.used.
#include "defs.h"

struct RouteArgs {
    uint experts;
    uint used;      // experts per row
    uint dst_stride;
    uint sigmoid;   // 1 for sigmoid, 0 for softmax
    uint normalise;
    uint biased;    // 0 for no bias, 1 if the bias is added to probabilities, 2 if it is added to logits
    uint scaled;    // 1 if the bias is followed by a factor for each expert's weight
    float scale;
};

constant float min_score = -3.0e38f;  // lowest score of an expert that can be chosen; also replaces NaN

// choose writes the indices of a row's experts, best first, and then their weights, to the first
// 2·used floats of shared. Two floats for each expert follow. A whole simdgroup must call choose.
// It ends with a barrier of the simdgroup.
inline void choose(device const float* logits, device const float* bias, constant RouteArgs& args, threadgroup float* shared, uint lane) {
    threadgroup float* probabilities = shared + 2 * args.used;
    threadgroup float* scores = probabilities + args.experts;
    // Each lane reads and writes only experts e with e%32 == lane.
    float best = -INFINITY;
    for (uint e = lane; e < args.experts; e += 32) {
        float v = args.biased == 2 ? logits[e] + bias[e] : logits[e];
        probabilities[e] = v;
        scores[e] = args.biased == 1 ? bias[e] : 0.0f;
        best = max(best, v);
    }
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
        float score = probabilities[e] + scores[e];
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
            shared[k] = float(chosen);
            shared[args.used + k] = p;
        }
    }
    float scale = args.normalise != 0 ? args.scale / (weights + 1e-20f) : args.scale;
    if (lane == 0) {
        for (uint k = 0; k < args.used; k++) {
            float factor = args.scaled != 0 ? bias[args.experts + uint(shared[k])] : 1.0f;
            shared[args.used + k] = shared[args.used + k] * scale * factor;
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
}

struct ExpertArgs {
    uint n;                 // weights per row of an expert
    uint row_bytes;
    uint out;               // rows of an expert's weights
    uint used;              // routed experts per row
    uint slots;             // choices per row: used, plus 1 if the shared experts are one more expert
    uint experts;
    uint shared_n;          // n, row_bytes and out of the shared experts
    uint shared_row_bytes;
    uint shared_out;
    uint x_stride;
    uint dst_stride;
    uint activation;        // compute.Activation
    uint biased;            // 1 if the routed experts have biases
    uint chooses;           // 1 if gated_experts chooses the experts of one row by their logits
    RouteArgs route;        // how it chooses them
};

// ExpertTile describes consecutive choices of one expert in the list of choices.
struct ExpertTile {
    uint expert;
    uint first;  // index in the list of choices
    uint count;  // 0 if the tile is unused
};
