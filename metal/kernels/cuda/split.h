// Products whose strands are divided among threadgroups, for weights of so few rows that one
// threadgroup per tile would not occupy the GPU.
#include "product.h"

// split_product is product for up to 64 rows of activations, without matrices, and a Bulk
// algorithm. Eight threadgroups share a tile, one for each strand. A threadgroup writes the sums of
// its strand to parts, in the order of the threads. When the sums of all strands are there, each
// threadgroup adds those of 8 columns. counters has a number for each tile that is a multiple of 8
// between kernels. Grid: tiles of rows · strands.
template <class W, class A>
__device__ void split_product(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, float4* parts, uint* counters, const ProductArgs& args) {
    enum { threads = 32 * A::warps, fours = A::values / 4 };
    static_assert(int(fours) == int(strands), "a thread has four sums of each 8 columns, and each threadgroup adds 8 columns");
    uint tile = blockIdx.x / strands, strand = blockIdx.x % strands, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    Part part(w0, w1, w2, w3, tile, args);
    uint first = part.tile * A::groups, all = groups_of(part.out);
    float sums[A::values];
    A().stream([&](uint m) { return part.w + min(first + m, all - 1) * group_bytes<W>(args.blocks); }, x, args.blocks, strand_begin(strand, args.blocks),
               strand_begin(strand + 1, args.blocks), warp, lane, [&](uint c) { return min(c, args.rows - 1); }, sums, [](uint) {});
    start_next();
    parts += ulong(tile) * strands * fours * threads + threadIdx.x;
    UNROLL for (uint i = 0; i < fours; i++) parts[(strand * fours + i) * threads] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    Share share = meet(counters + tile, strand, strands);
    for (uint i = share.first; i < share.end; i++) {
        float4 of[strands], sum = make_float4(0, 0, 0, 0);
        UNROLL for (uint s = 0; s < strands; s++) of[s] = __ldcg(parts + (s * fours + i) * threads);
        UNROLL for (uint s = 0; s < strands; s++) sum = make_float4(sum.x + of[s].x, sum.y + of[s].y, sum.z + of[s].z, sum.w + of[s].w);
        uint column = 8 * i + lane % 4 * 2, o = (first + warp) * group_rows + lane / 4;
        auto write = [&](uint c, uint r, float v) {
            if (c >= args.rows || r >= part.out) return;
            float* to = dst + ulong(c) * args.dst_stride + part.before + r;
            *to = args.add != 0 ? *to + v : v;
        };
        write(column, o, sum.x), write(column + 1, o, sum.y), write(column, o + 8, sum.z), write(column + 1, o + 8, sum.w);
    }
}
