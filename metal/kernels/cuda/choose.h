// The choice of a row's experts by the logits of its routing.
#include "activations.h"

struct RouteArgs {
    uint n;         // weights per row of the router
    uint experts;
    uint rows;
    uint used;      // experts per row
    uint x_stride;
    uint dst_stride;
    uint logits_stride; // of route_few and route_many
    uint gated;     // 1 if the kernel of the logits also computes the gate of the shared experts
    uint gate_stride;
    uint sigmoid;   // 1 for sigmoid, 0 for softmax
    uint normalise;
    uint biased;    // 1 if a bias is added to the probabilities for the choice, 2 if it is added to the logits
    uint scaled;    // 1 if the bias is followed by a factor for each expert's weight
    float scale;
};

// ordered maps a float to an integer such that the integers have the same order as the floats. -0
// and 0, and NaN, are ordered by their bits.
__device__ inline uint ordered(float v) {
    uint bits = __float_as_uint(v);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000;
}

// choose_some is choose for up to 32*E experts, of which a lane has E in registers.
template <int E>
__device__ inline void choose_some(const float* logits, const float* bias, float* dst, const RouteArgs& args) {
    const float infinity = __int_as_float(0x7f800000), least = -3.0e38f;
    uint lane = threadIdx.x % 32;
    float p[E], score[E], best = -infinity, sum = 0;
    UNROLL for (uint i = 0; i < E; i++) {
        uint e = lane + 32 * i;
        p[i] = e < args.experts ? __ldcg(logits + e) : -infinity;
        score[i] = e < args.experts && args.biased != 0 ? bias[e] : 0.0f;
    }
    UNROLL for (uint i = 0; i < E; i++) {
        if (args.biased == 2) p[i] += score[i], score[i] = 0;
        best = fmaxf(best, p[i]);
    }
    if (args.sigmoid == 0) {
        UNROLL for (uint m = 16; m > 0; m /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, m));
        UNROLL for (uint i = 0; i < E; i++) {
            p[i] = expf(p[i] - best);
            if (lane + 32 * i < args.experts) sum += p[i];
        }
        sum = warp_sum(sum);
    }
    UNROLL for (uint i = 0; i < E; i++) {
        p[i] = args.sigmoid != 0 ? 1.0f / (1.0f + expf(-p[i])) : p[i] / sum;
        score[i] += p[i];
        score[i] = score[i] > least ? score[i] + 0.0f : least; // NaN can be chosen, too; adding 0 turns -0 into 0
        if (lane + 32 * i >= args.experts) score[i] = -infinity;
    }
    float weights = 0, choice = 0, weight = 0; // lane k has choice k and its weight
#pragma unroll 1
    for (uint k = 0; k < args.used; k++) {
        float own = -infinity; // the lane's highest score, and its expert
        uint expert = ~0u;
        UNROLL for (uint i = 0; i < E; i++) {
            if (score[i] > own) own = score[i], expert = lane + 32 * i;
        }
        uint top = __reduce_max_sync(~0u, ordered(own));
        uint chosen = __reduce_min_sync(~0u, ordered(own) == top ? expert : ~0u);
        float of_chosen = 0;
        UNROLL for (uint i = 0; i < E; i++) {
            if (chosen == lane + 32 * i) score[i] = -infinity, of_chosen = p[i];
        }
        of_chosen = __shfl_sync(~0u, of_chosen, chosen % 32);
        weights += of_chosen;
        if (lane == k) choice = float(chosen), weight = of_chosen;
    }
    float scale = args.normalise != 0 ? args.scale / (weights + 1e-20f) : args.scale;
    if (lane < args.used) {
        dst[lane] = choice;
        dst[args.used + lane] = weight * scale * (args.scaled != 0 ? bias[args.experts + uint(choice)] : 1.0f);
    }
}

// choose chooses a row's experts in the same way as route of experts.metal. It writes the used
// experts to dst, and then their weights. A warp calls it. probabilities is shared memory with two
// floats per expert.
__device__ inline void choose(const float* logits, const float* bias, float* dst, float* probabilities, const RouteArgs& args) {
    if (args.experts <= 64) return choose_some<2>(logits, bias, dst, args);
    if (args.experts <= 128) return choose_some<4>(logits, bias, dst, args);
    if (args.experts <= 256) return choose_some<8>(logits, bias, dst, args);
    const float infinity = __int_as_float(0x7f800000), least = -3.0e38f;
    float* scores = probabilities + args.experts;
    uint lane = threadIdx.x % 32;
    float best = -infinity, sum = 0;
    for (uint e = lane; e < args.experts; e += 32) {
        float logit = __ldcg(logits + e), add = args.biased != 0 ? bias[e] : 0.0f;
        if (args.biased == 2) logit += add, add = 0;
        probabilities[e] = logit;
        scores[e] = add;
        best = fmaxf(best, logit);
    }
    if (args.sigmoid == 0) {
        UNROLL for (uint m = 16; m > 0; m /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, m));
        for (uint e = lane; e < args.experts; e += 32) sum += expf(probabilities[e] - best);
        sum = warp_sum(sum);
    }
    for (uint e = lane; e < args.experts; e += 32) {
        float p = args.sigmoid != 0 ? 1.0f / (1.0f + expf(-probabilities[e])) : expf(probabilities[e] - best) / sum;
        float score = p + scores[e];
        probabilities[e] = p;
        scores[e] = score > least ? score + 0.0f : least; // NaN can be chosen, too; adding 0 turns -0 into 0
    }
    float own;  // the lane's highest score, and its expert
    uint expert;
    auto find = [&] {
        own = -infinity, expert = ~0u;
        for (uint e = lane; e < args.experts; e += 32) {
            if (scores[e] > own) own = scores[e], expert = e;
        }
    };
    find();
    __syncwarp();
    float weights = 0, choice = 0, weight = 0; // lane k has choice k and its weight
    for (uint k = 0; k < args.used; k++) {
        uint top = __reduce_max_sync(~0u, ordered(own));
        uint chosen = __reduce_min_sync(~0u, ordered(own) == top ? expert : ~0u);
        float p = probabilities[chosen];
        if (chosen % 32 == lane) {
            scores[chosen] = -infinity;
            find();
        }
        weights += p;
        if (lane == k) choice = float(chosen), weight = p;
    }
    float scale = args.normalise != 0 ? args.scale / (weights + 1e-20f) : args.scale;
    if (lane < args.used) {
        dst[lane] = choice;
        dst[args.used + lane] = weight * scale * (args.scaled != 0 ? bias[args.experts + uint(choice)] : 1.0f);
    }
}
