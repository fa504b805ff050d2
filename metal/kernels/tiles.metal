// Products of weights with many rows of activations, such as those of prompts, in tiles.
#include "tile.h"

struct TileArgs {
    uint n;           // weights per row
    uint row_bytes;
    uint out;         // rows of weights
    uint rows;        // rows of activations
    uint x_stride;
    uint dst_stride;
    uint x_matrix;    // values between the activations of one matrix and of the next
    uint dst_matrix;
    uint add;         // 1 if results are added to dst
    uint activation;  // compute.Activation for gated_tile
};

// product_tile writes W·x for the matrices of a weight. Grid: (rows of weights / tile_rows, rows /
// tile_inputs, matrices).
template <typename W>
kernel void product_tile(
    device const uchar* w [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant TileArgs& args [[buffer(3)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    uint first = group.x * tile_rows, row = group.y * tile_inputs, count = args.rows - row;
    MatrixRows weights = {w + ulong(group.z) * args.out * args.row_bytes, first, args.out, args.row_bytes};
    PlainRows inputs = {x + group.z * args.x_matrix + row * args.x_stride, args.x_stride, count};
    tile<W>(weights, inputs, args.n, shared, tid, lane, simdgroup);
    dst += group.z * args.dst_matrix;
    for (uint i = tid; i < tile_inputs * tile_rows; i += tile_threads) {
        uint r = i / tile_rows, o = i % tile_rows;
        if (row + r < args.rows && first + o < args.out) {
            device float* to = dst + (row + r) * args.dst_stride + first + o;
            float v = shared[tile_result(r, o)];
            *to = args.add != 0 ? *to + v : v;
        }
    }
}

// gated_tile writes the activations of gate·x and up·x. Half of a tile's rows belong to gate, half
// to up. Grid: (rows of weights / (tile_rows/2), rows / tile_inputs).
template <typename W>
kernel void gated_tile(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const float* x [[buffer(2)]],
    device float* dst [[buffer(3)]],
    constant TileArgs& args [[buffer(4)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    uint each = tile_rows / 2, first = group.x * each, row = group.y * tile_inputs, count = args.rows - row;
    GatedRows weights = {gate, up, first, args.out, args.row_bytes};
    PlainRows inputs = {x + row * args.x_stride, args.x_stride, count};
    tile<W>(weights, inputs, args.n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_inputs * each; i += tile_threads) {
        uint r = i / each, o = i % each;
        if (row + r < args.rows && first + o < args.out) {
            dst[(row + r) * args.dst_stride + first + o] = activate(args.activation, shared[tile_result(r, o)], shared[tile_result(r, o + each)]);
        }
    }
}

#define TILES(type, name) \
    INSTANTIATE("product_tile_" name, product_tile, type) \
    INSTANTIATE("gated_tile_" name, gated_tile, type)
EACH_TYPE(TILES)
