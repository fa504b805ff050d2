// The products of a mixture of experts for many choices per expert, in tiles. Choices are grouped
// by expert, so that an expert's weights are read once per tile of choices.
#include "tile.h"
#include "experts.h"

// ChosenRows are the rows of activations of a tile's choices. Each choice of a row has its own
// activations, slot floats apart, or all have the same, if slot is 0.
struct ChosenRows {
    device const float* x;
    device const uint* choices;
    uint slots, stride, slot, count;
    uint at(uint i) const {
        uint choice = choices[min(i, count - 1)];
        return choice / slots * stride + choice % slots * slot;
    }
};

// expert_gated_tile writes the activations of gate·x and up·x of a tile's choices to dst. The
// results of a row are one after another in the order of its choices. Grid: (rows of weights /
// (tile_rows/2), tiles).
template <typename W>
kernel void expert_gated_tile(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const uchar* shared_gate [[buffer(2)]],
    device const uchar* shared_up [[buffer(3)]],
    device const float* x [[buffer(4)]],
    device const uint* choices [[buffer(5)]],
    device const ExpertTile* tiles [[buffer(6)]],
    device float* dst [[buffer(7)]],
    device const float* gate_bias [[buffer(8)]],
    device const float* up_bias [[buffer(9)]],
    constant ExpertArgs& args [[buffer(10)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    device const ExpertTile& t = tiles[group.y];
    bool routed = t.expert < args.experts;
    uint each = tile_rows / 2, first = group.x * each, out = routed ? args.out : args.shared_out;
    if (t.count == 0 || first >= out) return;
    if (!routed) {
        gate = shared_gate;
        up = shared_up;
    }
    ulong base = routed ? ulong(t.expert) * out : 0;
    GatedRows weights = {gate + base * args.row_bytes, up + base * args.row_bytes, first, out, args.row_bytes};
    ChosenRows inputs = {x, choices + t.first, args.slots, args.x_stride, 0, t.count};
    tile<W>(weights, inputs, args.n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_inputs * each; i += tile_threads) {
        uint r = i / each, o = i % each;
        if (r < t.count && first + o < out) {
            uint choice = choices[t.first + r];
            bool biased = args.biased != 0 && routed;
            float g = shared[tile_result(r, o)], u = shared[tile_result(r, o + each)];
            if (biased) {
                g += gate_bias[base + first + o];
                u += up_bias[base + first + o];
            }
            dst[choice / args.slots * args.dst_stride + choice % args.slots * args.out + first + o] = activate(args.activation, g, u);
        }
    }
}

// expert_down_tile writes the down products of a tile's choices, and their biases, with a row per
// choice: [rows*slots, out]. Grid: (rows of weights / tile_rows, tiles).
template <typename W>
kernel void expert_down_tile(
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
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    device const ExpertTile& t = tiles[group.y];
    if (t.count == 0) return;
    bool routed = t.expert < args.experts;
    uint first = group.x * tile_rows, n = routed ? args.n : args.shared_n, row_bytes = routed ? args.row_bytes : args.shared_row_bytes;
    device const uchar* w = routed ? down + ulong(t.expert) * args.out * args.row_bytes : shared_down;
    MatrixRows weights = {w, first, args.out, row_bytes};
    ChosenRows inputs = {h, choices + t.first, args.slots, args.x_stride, args.n, t.count};
    tile<W>(weights, inputs, n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_inputs * tile_rows; i += tile_threads) {
        uint r = i / tile_rows, o = i % tile_rows;
        if (r < t.count && first + o < args.out) {
            float v = shared[tile_result(r, o)];
            bool biased = args.biased != 0 && routed;
            dst[choices[t.first + r] * args.dst_stride + first + o] = biased ? v + bias[ulong(t.expert) * args.out + first + o] : v;
        }
    }
}

#define EXPERT_TILES(type, name) \
    INSTANTIATE("expert_gated_tile_" name, expert_gated_tile, type) \
    INSTANTIATE("expert_down_tile_" name, expert_down_tile, type)
EACH_TYPE(EXPERT_TILES)
