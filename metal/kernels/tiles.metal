// Products of weights with many rows, such as those of prompts, in tiles of 32 by 32. Threadgroups have 128 threads.
#include "tile.h"

struct TileArgs {
    uint n;           // weights a row
    uint row_bytes;
    uint out;         // rows of weights
    uint rows;        // of activations
    uint x_stride;
    uint dst_stride;
    uint x_matrix;    // from one matrix's activations to the next one's
    uint dst_matrix;
    uint add;         // whether results are added to dst
};

// product_tile writes W·x for the matrices of a weight. Grid: (rows of weights / 32, rows / 32, matrices).
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
    uint first = group.x * tile_size, row = group.y * tile_size, own = tid % 64 / 2;
    device const uchar* w_row = w + (ulong(group.z) * args.out + min(first + own, args.out - 1)) * args.row_bytes;
    device const float* x_row = x + group.z * args.x_matrix + min(row + own, args.rows - 1) * args.x_stride;
    tile<W>(w_row, x_row, args.n, shared, tid, lane, simdgroup);
    dst += group.z * args.dst_matrix;
    for (uint i = tid; i < tile_size * tile_size; i += 128) {
        uint r = i / tile_size, o = i % tile_size;
        if (row + r < args.rows && first + o < args.out) {
            device float* to = dst + (row + r) * args.dst_stride + first + o;
            float v = shared[r * tile_stride + o];
            *to = args.add != 0 ? *to + v : v;
        }
    }
}

// gated_tile writes silu(gate·x)*(up·x). A tile has 16 rows of each. Grid: (rows of weights / 16, rows / 32).
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
    uint first = group.x * 16, row = group.y * tile_size, own = tid % 64 / 2;
    device const uchar* w_row = (own < 16 ? gate : up) + ulong(min(first + own % 16, args.out - 1)) * args.row_bytes;
    device const float* x_row = x + min(row + own, args.rows - 1) * args.x_stride;
    tile<W>(w_row, x_row, args.n, shared, tid, lane, simdgroup);
    for (uint i = tid; i < tile_size * 16; i += 128) {
        uint r = i / 16, o = i % 16;
        if (row + r < args.rows && first + o < args.out) {
            threadgroup const float* v = shared + r * tile_stride + o;
            dst[(row + r) * args.dst_stride + first + o] = silu(v[0]) * v[16];
        }
    }
}

#define TILES(type, name) \
    INSTANTIATE("product_tile_" name, product_tile, type) \
    INSTANTIATE("gated_tile_" name, gated_tile, type)
EACH_TYPE(TILES)
