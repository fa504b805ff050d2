// The mixture of experts for many rows. Choices (a row and one of its experts) are grouped by
// expert, so that an expert's weights are read once per tile of choices.
#include "tile.h"

struct GroupArgs {
    uint rows;
    uint used;   // experts per row
    uint experts;
    uint routing_stride;
    uint tiles;  // length of the list of tiles; some can be unused
};

// ExpertTile describes up to CHOICES_TILE choices of one expert.
struct ExpertTile {
    uint expert;
    uint first;  // index in the list of choices
    uint count;  // 0 if the tile is unused
};

// chosen reports whether choice i of a routing is the given expert.
inline uint chosen(device const float* routing, constant GroupArgs& args, uint i, uint expert) {
    if (i >= args.rows * args.used) return 0;
    return uint(routing[i / args.used * args.routing_stride + i % args.used]) == expert ? 1 : 0;
}

// group_experts sorts a routing's choices (row*used + k) by expert and divides them into tiles. The
// choices of an expert stay in order. The grid is one threadgroup. Each simdgroup processes one
// expert at a time and scans 32 choices at once. counts has an integer per expert.
[[max_total_threads_per_threadgroup(GROUP_THREADS)]] kernel void group_experts(
    device const float* routing [[buffer(0)]],
    device uint* choices [[buffer(1)]],
    device ExpertTile* tiles [[buffer(2)]],
    constant GroupArgs& args [[buffer(3)]],
    threadgroup uint* counts [[threadgroup(0)]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint all = args.rows * args.used;
    for (uint e = simdgroup; e < args.experts; e += simdgroups) {
        uint n = 0;
        for (uint i = lane; i < all; i += 32) n += chosen(routing, args, i, e);
        n = simd_sum(n);
        if (lane == 0) counts[e] = n;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = simdgroup; e < args.experts; e += simdgroups) {
        uint at = 0, tile = 0, count = counts[e];
        for (uint i = lane; i < e; i += 32) {
            at += counts[i];
            tile += (counts[i] + CHOICES_TILE - 1) / CHOICES_TILE;
        }
        at = simd_sum(at);
        tile = simd_sum(tile);
        for (uint i = lane; CHOICES_TILE * i < count; i += 32) {
            tiles[tile + i].expert = e;
            tiles[tile + i].first = at + CHOICES_TILE * i;
            tiles[tile + i].count = min(count - CHOICES_TILE * i, uint(CHOICES_TILE));
        }
        if (e == args.experts - 1) {
            for (uint i = tile + (count + CHOICES_TILE - 1) / CHOICES_TILE + lane; i < args.tiles; i += 32) tiles[i].count = 0;
        }
        for (uint first = 0; first < all; first += 32) {
            uint own = chosen(routing, args, first + lane, e);
            uint before = simd_prefix_exclusive_sum(own);
            if (own != 0) choices[at + before] = first + lane;
            at += simd_sum(own);
        }
    }
}

struct ExpertTileArgs {
    uint n;           // weights per row
    uint row_bytes;
    uint out;         // rows of an expert's weights
    uint used;
    uint x_stride;
    uint dst_stride;
    uint activation;
    uint biased;      // 1 if the experts have biases
};

// expert_gated_tile writes the activations of gate·x and up·x of a tile's choices to dst. The
// result of a choice is at the choice's index. Grid: (rows of weights / (tile_rows/2), tiles).
template <typename W>
kernel void expert_gated_tile(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const float* x [[buffer(2)]],
    device const uint* choices [[buffer(3)]],
    device const ExpertTile* tiles [[buffer(4)]],
    device float* dst [[buffer(5)]],
    device const float* gate_bias [[buffer(6)]],
    device const float* up_bias [[buffer(7)]],
    constant ExpertTileArgs& args [[buffer(8)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    device const ExpertTile& t = tiles[group.y];
    if (t.count == 0) return;
    uint each = tile_rows / 2, first = group.x * each, own = tile_weight(tid);
    device const uchar* w_row = (own < each ? gate : up) + (ulong(t.expert) * args.out + min(first + own % each, args.out - 1)) * args.row_bytes;
    device const float* x_row = x + choices[t.first + tile_input(tid, t.count)] / args.used * args.x_stride;
    tile<W>(w_row, x_row, args.n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_inputs * each; i += tile_threads()) {
        uint r = i / each, o = i % each;
        if (r < t.count && first + o < args.out) {
            uint choice = choices[t.first + r];
            threadgroup const float* v = shared + tile_result(r, o);
            uint at = t.expert * args.out + first + o;
            float g = args.biased != 0 ? v[0] + gate_bias[at] : v[0], u = args.biased != 0 ? v[each] + up_bias[at] : v[each];
            dst[choice / args.used * args.dst_stride + choice % args.used * args.out + first + o] = activate(args.activation, g, u);
        }
    }
}

// expert_down_tile writes the down products of a tile's choices, and their biases, with a row per
// choice: [rows*used, out]. Grid: (rows of weights / tile_rows, tiles).
template <typename W>
kernel void expert_down_tile(
    device const uchar* down [[buffer(0)]],
    device const float* h [[buffer(1)]],
    device const uint* choices [[buffer(2)]],
    device const ExpertTile* tiles [[buffer(3)]],
    device float* dst [[buffer(4)]],
    device const float* bias [[buffer(5)]],
    constant ExpertTileArgs& args [[buffer(6)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    device const ExpertTile& t = tiles[group.y];
    if (t.count == 0) return;
    uint first = group.x * tile_rows, choice = choices[t.first + tile_input(tid, t.count)];
    device const uchar* w_row = down + (ulong(t.expert) * args.out + min(first + tile_weight(tid), args.out - 1)) * args.row_bytes;
    device const float* h_row = h + choice / args.used * args.x_stride + choice % args.used * args.n;
    tile<W>(w_row, h_row, args.n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_inputs * tile_rows; i += tile_threads()) {
        uint r = i / tile_rows, o = i % tile_rows;
        if (r < t.count && first + o < args.out) {
            float v = shared[tile_result(r, o)];
            dst[choices[t.first + r] * args.dst_stride + first + o] = args.biased != 0 ? v + bias[t.expert * args.out + first + o] : v;
        }
    }
}

struct WeighArgs {
    uint cols;
    uint used;
    uint routing_stride;
    uint dst_stride;
};

// weigh_experts adds the weighted down products of a row's choices to dst, as experts_add does.
// Grid: (columns / 64, rows).
kernel void weigh_experts(
    device const float* products [[buffer(0)]],
    device const float* routing [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant WeighArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i >= args.cols) return;
    products += ulong(group.y) * args.used * args.cols + i;
    routing += group.y * args.routing_stride + args.used;
    float sum = 0;
    for (uint k = 0; k < args.used; k++) sum = fma(routing[k], products[k * args.cols], sum);
    dst[group.y * args.dst_stride + i] += sum;
}

#define EXPERT_TILES(type, name) \
    INSTANTIATE("expert_gated_tile_" name, expert_gated_tile, type) \
    INSTANTIATE("expert_down_tile_" name, expert_down_tile, type)
EACH_TYPE(EXPERT_TILES)
