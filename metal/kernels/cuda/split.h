// Products whose strands are divided among threadgroups: for weights of so few rows that one
// threadgroup per tile would not occupy the GPU, and for tiles that would leave a part of it
// without work at the end.
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

struct BalancedArgs {
    ProductArgs product;
    uint tiles;
};

// balanced_product is product without matrices, for Warpgroups. The threadgroups divide the strands
// of all tiles evenly. Each takes neighbouring strands, at least those of a whole tile, the last
// ones first: so when it needs the sums of a tile's first strands from the threadgroup before,
// which began with them, they are there. parts has these sums for each threadgroup, and finished
// the number of strands that they contain; it is 0 between kernels. The GPU starts threadgroups in
// the order of their indices. Grid: threadgroups.
template <class W, class A>
__device__ void balanced_product(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, float4* parts, uint* finished,
                                 const BalancedArgs& balanced) {
    enum { threads = 32 * A::warps, fours = A::values / 4 };
    const ProductArgs& args = balanced.product;
    uint all = balanced.tiles * strands, begin = blockIdx.x * all / gridDim.x, end = (blockIdx.x + 1) * all / gridDim.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    auto part_of = [&](uint threadgroup) { return parts + ulong(threadgroup) * fours * threads + threadIdx.x; };
    wait_for_previous();
    while (end > begin) {
        uint tile = (end - 1) / strands, from = max(begin, tile * strands), first_strand = from % strands, strand_count = end - from;
        Part part(w0, w1, w2, w3, tile / args.column_tiles, args);
        uint column = tile % args.column_tiles * A::columns, first = part.tile * A::groups, groups = groups_of(part.out);
        float sums[A::values];
        UNROLL for (uint i = 0; i < A::values; i++) sums[i] = 0;
        if (first_strand > 0) {
            if (threadIdx.x == 0) {
                while (*(volatile uint*)(finished + blockIdx.x) != first_strand) {}
                __threadfence();
            }
            __syncthreads();
            UNROLL for (uint i = 0; i < fours; i++) {
                float4 v = __ldcg(part_of(blockIdx.x) + i * threads);
                sums[4 * i] = v.x, sums[4 * i + 1] = v.y, sums[4 * i + 2] = v.z, sums[4 * i + 3] = v.w;
            }
            if (threadIdx.x == 0) finished[blockIdx.x] = 0;
        }
        A().multiply_strands([&](uint m) { return part.w + min(first + m, groups - 1) * group_bytes<W>(args.blocks); }, x, args.blocks, first_strand,
                             first_strand + strand_count, warp, lane, [&](uint c) { return min(column + c, args.rows - 1); }, sums);
        if (first_strand + strand_count < strands) {
            UNROLL for (uint i = 0; i < fours; i++) part_of(blockIdx.x + 1)[i * threads] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) *(volatile uint*)(finished + blockIdx.x + 1) = strand_count;
        } else {
            A::template each<A::own_groups>(warp, lane, [&](uint m, uint c, uint r, uint i) {
                uint o = (first + m) * group_rows + r;
                if (column + c >= args.rows || o >= part.out) return;
                float* to = dst + ulong(column + c) * args.dst_stride + part.before + o;
                *to = args.add != 0 ? *to + sums[i] : sums[i];
            });
        }
        __syncthreads(); // shared memory has other activations next
        end = from;
    }
}
