// Code that the kernels of recurrent layers share: the gated delta rule, and the scan of Mamba-2.
// Step.DeltaNet and Step.Scan of package compute have the formulae. The scan's C, B and u are
// called query, key and change here, and its x is called value. The columns of a head's matrix do
// not depend on one another, so threadgroups divide them.
#include "states.h"

struct RecurrenceArgs {
    uint stride;       // of rows of queries, keys and values
    uint gate_stride;
    uint dst_stride;
    uint queries;      // columns at which queries, keys and values begin
    uint keys;
    uint values;
    uint key_heads;
    uint heads;
    uint key_dim;      // at most STATE_KEYS
    uint value_dim;
    uint grouped;      // 1 if consecutive heads read the same key head
    uint log_rows;     // rows of a slot's log
    float eps;
};

// Rule has the values of the template parameter R of kernels.
enum Rule : uint { delta_rule, scan_rule };

inline uint key_head(constant RecurrenceArgs& args, uint head) { return args.grouped != 0 ? head / (args.heads / args.key_heads) : head % args.key_heads; }

inline float softplus(float x) {
    float e = exp(-fabs(x)), u = 1.0f + e;
    float log1p = u == 1.0f ? e : log(u) * e / (u - 1.0f);
    return max(x, 0.0f) + log1p;
}

// log_row returns a row of a head in the log of a slot: a key, a change of the matrix, and the
// factor of the matrix.
inline ulong log_row(constant RecurrenceArgs& args, uint slot, uint row, uint head) {
    return ((ulong(slot) * args.log_rows + row) * args.heads + head) * (args.key_dim + args.value_dim + 2);
}

// add_scaled adds a·b to four sums.
inline void add_scaled(thread float* sums, float a, float4 b) {
    sums[0] = fma(a, b.x, sums[0]);
    sums[1] = fma(a, b.y, sums[1]);
    sums[2] = fma(a, b.z, sums[2]);
    sums[3] = fma(a, b.w, sums[3]);
}

inline float4 four_at(threadgroup const float* p) { return *(threadgroup const float4*)p; }
