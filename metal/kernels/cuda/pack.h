// Packing of the weights of GGUF files, and rows of packed weights as float32.
#include "activations.h"
#include "weights.h"

struct PackArgs {
    uint blocks;     // of 32 weights in a row
    uint row_bytes;  // in the file
    uint rows;       // per matrix
    uint groups;     // per matrix; missing rows of the last group are zeros
};

// pack packs matrices. A warp takes a block of a group. Grid: (groups per matrix, blocks / warps of
// a threadgroup, matrices).
template <class W>
__device__ void pack(const uchar* from, uchar* to, const PackArgs& args) {
    uint lane = threadIdx.x % 32, r = lane / 4, q = lane % 4, b = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    wait_for_previous();
    if (b >= args.blocks) return;
    from += ulong(blockIdx.z) * args.rows * args.row_bytes;
    uchar* super = (uchar*)super_block<W>(to + (ulong(blockIdx.z) * args.groups + blockIdx.x) * group_bytes<W>(W::parts * args.blocks), W::parts * b);
    uchar* unit = (uchar*)block<W>(super, W::parts * b);
    int v[16];
    for (uint j = 0; j < 4; j++) {
        uint row = blockIdx.x * group_rows + r + 8 * (j % 2);
        for (uint i = 0; i < 4; i++) {
            v[4 * j + i] = row < args.rows ? W::quant(from + ulong(row) * args.row_bytes, 32 * b + 4 * q + 16 * (j / 2) + i) : 0;
        }
    }
    W::put(unit, lane, v);
    if (q == 0) { // missing rows keep the scale 0 of a new buffer
        for (uint h = 0; h < 2; h++) {
            uint row = blockIdx.x * group_rows + r + 8 * h;
            if (row < args.rows) W::put_scales(unit, super, from + ulong(row) * args.row_bytes, b, r + 8 * h);
        }
    }
}

struct EmbedArgs {
    uint blocks;
    uint token_stride;
    uint dst_stride;
};

// embed writes the rows of a packed matrix that are the embeddings of tokens. Four lanes take a
// block. Grid: (4·blocks / threads, rows).
template <class W>
__device__ void embed(const uchar* table, const float* tokens, float* dst, const EmbedArgs& args) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x, b = i / 4, q = i % 4;
    wait_for_previous();
    if (b >= args.blocks) return;
    uint row = uint(tokens[blockIdx.y * args.token_stride]), r = row % group_rows;
    Lane<W> lane;
    lane.load(table + row / group_rows * group_bytes<W>(W::parts * args.blocks), W::parts * b, r % 8 * 4 + q);
    uint a[8];
    lane.values(a);
    dst += ulong(blockIdx.y) * args.dst_stride + 32 * b + 4 * q;
    UNROLL for (uint half = 0; half < 2; half++) {
        UNROLL for (uint odd = 0; odd < 2; odd++) {
            uint pair = r < 8 ? a[4 * half + 2 * odd] : a[4 * half + 2 * odd + 1];
            dst[16 * half + odd] = half_float(pair) * factor(W::parts);
            dst[16 * half + odd + 2] = half_float(pair >> 16) * factor(W::parts);
        }
    }
}
