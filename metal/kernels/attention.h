// Code that the attention kernels share.
//
// A score is summed in four parts: part i has the products of the dimensions 8i to 8i+7 of every
// 32. The result is (part 0 + part 1) + (part 2 + part 3).
//
// The keys of a row are processed in splits of split_keys positions, and each split in blocks
// of 32. The result of a split is its largest score m, the sum l of the weights exp(score-m), and
// the weighted sum of the values. Splits are joined in order. Every kernel computes in this order,
// so that a row has the same bits in all of them.
#include "pages.h"

struct AttentionArgs {
    uint heads;
    uint kv_heads;
    uint key_dim;
    uint value_dim;
    uint q_stride;
    uint dst_stride;
    uint page_size;
    uint latent;  // 1 if the value of a position is the first part of its key, as in MLA
    uint splits;  // splits per row and head whose results are stored separately; 0 if a threadgroup processes all splits of a row
    float scale;
    uint window;  // maximum number of positions to which a row attends; 0 for all
    uint sinks;   // 1 if each query head has a sink: a score that is part of the softmax and has no value
};

// first_of returns the first position to which a row attends. n is the row's position plus 1.
inline uint first_of(constant AttentionArgs& args, uint n) { return args.window != 0 && n > args.window ? n - args.window : 0; }

constant uint split_keys = SPLIT_KEYS;

// join merges a split into a running result with maximum m and sum l. It updates m and l and
// returns the factors (f, g): the merged weighted sum of values is result·f + split·g.
inline float2 join(thread float& m, thread float& l, float split_m, float split_l) {
    float larger = max(m, split_m);
    float f = exp(m - larger), g = exp(split_m - larger);
    l = fma(l, f, split_l * g);
    m = larger;
    return float2(f, g);
}

// sink_factor adds the weight of a head's sink to l, the sum of a row's weights. It returns the
// factor for the row's weighted sum of values.
inline float sink_factor(constant AttentionArgs& args, device const float* sinks, uint head, float m, thread float& l) {
    if (args.sinks == 0) return 1.0f;
    return join(m, l, sinks[head], 1.0f).x;
}
