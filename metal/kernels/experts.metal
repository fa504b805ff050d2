// The products of a mixture of experts for few choices per expert. The backend instantiates the
// templates that its geometry chooses.
#include "products.h"
#include "experts.h"

// Chosen are the choices that a threadgroup processes: up to N choices of one expert. If there are
// fewer, the last one is repeated.
template <uint N>
struct Chosen {
    uint expert, count;
    uint own[N];
};

// choices_of returns the choices of a tile.
template <uint N>
inline Chosen<N> choices_of(device const uint* choices, device const ExpertTile* tiles, uint tile) {
    Chosen<N> c;
    c.expert = tiles[tile].expert;
    c.count = tiles[tile].count;
    UNROLL for (uint j = 0; j < N; j++) c.own[j] = c.count > 0 ? choices[tiles[tile].first + min(j, c.count - 1)] : 0;
    return c;
}

// Gathered are the activations of choices.
template <uint N>
struct Gathered {
    device const float* x;
    uint count;
    uint at[N];
    device const float* row(uint j) const { return x + at[j]; }
};

// gated_experts writes the activations of gate·x and up·x of the choices of an expert. The results
// of a row are one after another in the order of its choices. With N = 1, there is one row, and its
// choices are the tiles. If args.chooses is 1, the first simdgroup of each threadgroup chooses the
// row's experts while the others stage the row; the first threadgroup writes the routing. Grid:
// (groups of rows of weights, tiles).
template <typename W, uint R, uint N>
kernel void gated_experts(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const uchar* shared_gate [[buffer(2)]],
    device const uchar* shared_up [[buffer(3)]],
    device const float* x [[buffer(4)]],
    device float* routing [[buffer(5)]],
    device const uint* choices [[buffer(6)]],
    device const ExpertTile* tiles [[buffer(7)]],
    device float* dst [[buffer(8)]],
    device const float* gate_bias [[buffer(9)]],
    device const float* up_bias [[buffer(10)]],
    device const float* logits [[buffer(11)]],
    device const float* logit_bias [[buffer(12)]],
    constant ExpertArgs& args [[buffer(13)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    Chosen<N> c;
    threadgroup float* staged = shared + (args.chooses != 0 ? (2 * (args.used + args.experts) + 3) / 4 * 4 : 0);
    if (N > 1) {
        c = choices_of<N>(choices, tiles, group.y);
    } else {
        float expert = 0;
        if (args.chooses != 0) {
            uint choosing = simdgroups > 1 ? 32 : 0;  // threads that do not stage
            if (simdgroup == 0) {
                choose(logits, logit_bias, args.route, shared, lane);
                if (group.x == 0 && group.y == 0) {
                    for (uint i = lane; i < 2 * args.used; i += 32) routing[i] = shared[i];
                }
            }
            if (tid >= choosing && args.n <= STAGED_ROW) {
                StagedRow part = {x, staged, tid - choosing, simdgroups * 32 - choosing, false};
                part.template stage<W>(args.n);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (group.y < args.used) expert = shared[group.y];
        } else if (group.y < args.used) {
            expert = routing[group.y];
        }
        c.expert = group.y < args.used ? uint(expert) : args.experts;
        c.count = 1;
        c.own[0] = group.y;
    }
    if (c.count == 0) return;
    bool routed = c.expert < args.experts;
    uint out = routed ? args.out : args.shared_out, first = own_rows((group.x * simdgroups + simdgroup) * teams * R, lane, R), own = min(first, out - 1);
    ulong at = own;
    if (routed) {
        at += ulong(c.expert) * out;
    } else {
        gate = shared_gate;
        up = shared_up;
    }
    float sums[2 * R * N];
    gate += at * args.row_bytes;
    up += at * args.row_bytes;
    if (N > 1) {
        Gathered<N> rows;
        rows.x = x;
        rows.count = c.count;
        UNROLL for (uint j = 0; j < N; j++) rows.at[j] = c.own[j] / args.slots * args.x_stride;
        staged_products<W, 2, R, N>(gate, up, args.row_bytes, out - own, rows, args.n, shared, tid, simdgroups * 32, lane, sums);
    } else if (args.n <= STAGED_ROW) {
        StagedRow row = {x, staged, tid, simdgroups * 32, args.chooses != 0};
        row_products<W, 2, R>(gate, up, args.row_bytes, out - own, row, args.n, lane, sums);
    } else {
        Row row = {x};
        row_products<W, 2, R>(gate, up, args.row_bytes, out - own, row, args.n, lane, sums);
    }
    UNROLL for (uint i = 0; i < R * N; i++) {
        uint r = i / N, j = i % N;
        if (lane % strands == i % strands && first + r < out && j < c.count) {
            bool biased = args.biased != 0 && routed;
            float a = biased ? sums[i] + gate_bias[at + r] : sums[i], b = biased ? sums[R * N + i] + up_bias[at + r] : sums[R * N + i];
            dst[c.own[j] / args.slots * args.dst_stride + c.own[j] % args.slots * args.out + first + r] = activate(args.activation, a, b);
        }
    }
}

// experts_down writes the down products of the choices of an expert, and their biases, with a row
// for each choice: [rows*slots, out]. Grid: (groups of rows of weights, tiles).
template <typename W, uint R, uint N>
kernel void experts_down(
    device const uchar* down [[buffer(0)]],
    device const uchar* shared_down [[buffer(1)]],
    device const float* h [[buffer(2)]],
    device const uint* choices [[buffer(3)]],
    device const ExpertTile* tiles [[buffer(4)]],
    device float* dst [[buffer(5)]],
    device const float* bias [[buffer(6)]],
    constant ExpertArgs& args [[buffer(7)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    Chosen<N> c = choices_of<N>(choices, tiles, group.y);
    if (c.count == 0) return;
    bool routed = c.expert < args.experts;
    uint first = own_rows((group.x * simdgroups + simdgroup) * teams * R, lane, R), own = min(first, args.out - 1), n = routed ? args.n : args.shared_n, row_bytes = routed ? args.row_bytes : args.shared_row_bytes;
    ulong at = routed ? ulong(c.expert) * args.out + own : own;
    Gathered<N> rows;
    rows.x = h;
    rows.count = c.count;
    UNROLL for (uint j = 0; j < N; j++) rows.at[j] = c.own[j] / args.slots * args.x_stride + c.own[j] % args.slots * args.n;
    float sums[R * N];
    device const uchar* w = (routed ? down : shared_down) + at * row_bytes;
    staged_products<W, 1, R, N>(w, w, row_bytes, args.out - own, rows, n, shared, tid, simdgroups * 32, lane, sums);
    UNROLL for (uint i = 0; i < R * N; i++) {
        uint r = i / N, j = i % N;
        if (lane % strands == i % strands && first + r < args.out && j < c.count) {
            dst[c.own[j] * args.dst_stride + first + r] = args.biased != 0 && routed ? sums[i] + bias[at + r] : sums[i];
        }
    }
}

// experts_add adds the weighted down products of a row's experts, and their biases, to dst, in the
// order of the routing. The shared experts are last. Each simdgroup of a threadgroup computes the
// products of one choice at a time, for the same rows of weights. shared has a float for each
// choice and row of weights. Grid: (groups of 4·R rows of weights, rows).
template <typename W, uint R>
kernel void experts_add(
    device const uchar* down [[buffer(0)]],
    device const uchar* shared_down [[buffer(1)]],
    device const float* h [[buffer(2)]],
    device const float* routing [[buffer(3)]],
    device float* dst [[buffer(4)]],
    device const float* bias [[buffer(5)]],
    constant ExpertArgs& args [[buffer(6)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    constexpr uint each = teams * R;
    uint first = own_rows(group.x * each, lane, R), at = min(first, args.out - 1);
    for (uint k = simdgroup; k < args.slots; k += simdgroups) {
        bool routed = k < args.used;
        ulong row = routed ? ulong(routing[k]) * args.out + at : at;
        uint n = routed ? args.n : args.shared_n, row_bytes = routed ? args.row_bytes : args.shared_row_bytes;
        device const uchar* w = (routed ? down : shared_down) + row * row_bytes;
        Row x = {h + k * args.n};
        float p[R];
        row_products<W, 1, R>(w, w, row_bytes, args.out - at, x, n, lane, p);
        UNROLL for (uint r = 0; r < R; r++) {
            if (lane % strands == r && first + r < args.out) shared[k * each + lane / strands * R + r] = args.biased != 0 && routed ? p[r] + bias[row + r] : p[r];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint o = group.x * each + lane;
    if (simdgroup > 0 || lane >= each || o >= args.out) return;
    float sum = 0;
    for (uint k = 0; k < args.used; k++) sum = fma(routing[args.used + k], shared[k * each + lane], sum);
    sum += dst[o];
    if (args.slots > args.used) sum += shared[args.used * each + lane];
    dst[o] = sum;
}
