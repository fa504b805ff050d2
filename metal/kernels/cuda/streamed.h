// Streamed multiplies M groups of weights with one column. A warp takes a strand, which it stages
// in shared memory itself: it waits for no other warp, so that some warps multiply while the
// weights of others arrive. It reads U blocks before it uses the first.
#include "tile.h"

template <class W, int M, int N, int S, int U>
struct Streamed {
    enum { groups = M, columns = N, warps = strands / S, values = M * 2, complete = 0, super_bytes = W::header + W::per * W::unit };

    uint begin, end;  // the strand's blocks
    uint first;       // its first block of weights
    uint from, size;  // where it begins in a group, and its length, in bytes
    uint lead;        // bytes of a header before the strand, if it does not begin with a super-block
    uint4* x;         // its activations
    uchar* own;       // for each group, the header and the strand

    // longest returns the maximum number of blocks of a strand, and room that of its blocks of
    // weights: with two parts, the first and the last one may belong to two strands.
    static __device__ uint longest(uint blocks) { return (blocks + strands - 1) / strands; }
    static __device__ uint room(uint blocks) { return W::parts == 1 ? longest(blocks) : longest(blocks) / 2 + 1; }
    static __device__ uint group_room(uint blocks) {
        uint n = room(blocks);
        return n * W::unit + (W::header == 0 ? 0 : ((n + W::per - 2) / W::per + 1) * W::header);
    }

    // bytes returns the shared memory of a warp.
    static __device__ uint bytes(uint blocks) { return 64 * longest(blocks) + M * group_room(blocks); }

    __device__ Streamed(void* shared, uint blocks, uint warp) : begin(strand_begin(warp, blocks)), end(strand_begin(warp + 1, blocks)), first(begin / W::parts) {
        lead = first % W::per == 0 ? 0 : W::header;
        from = first / W::per * super_bytes + (lead == 0 ? 0 : W::header + first % W::per * W::unit);
        uint last = (max(end, begin + 1) - 1) / W::parts;
        size = last / W::per * super_bytes + W::header + (last % W::per + 1) * W::unit - from;
        x = (uint4*)((uchar*)shared + warp * bytes(blocks));
        own = (uchar*)(x + 4 * longest(blocks));
    }

    // copy_row copies the strand's activations.
    __device__ void copy_row(const Packed<1>& row, uint lane) {
        for (uint i = lane; i < 4 * (end - begin); i += 32) x[i] = row.values(0, begin + i / 4)[i % 4];
    }

    // copy starts to copy the strand of the m-th group of weights.
    __device__ void copy(uint m, const uchar* group, uint blocks, uint lane) {
        if (begin == end) return;
        uchar* to = own + m * group_room(blocks);
        if (lead != 0) stage(to, group + first / W::per * super_bytes, W::header, lane, 32);
        stage(to + lead, group + from, size, lane, 32);
    }

    // multiply waits for the weights and computes the warp's sums.
    __device__ void multiply(uint blocks, uint lane, float (&sums)[values]) {
        float all[M][4];
        UNROLL for (uint i = 0; i < M * 4; i++) all[i / 4][i % 4] = 0;
        staged();
        __syncwarp();
#pragma unroll U
        for (uint b = begin; b < end; b++) {
            uint4 v = x[4 * (b - begin) + lane % 4];
            uint i = b / W::parts, super = i / W::per * super_bytes;
            UNROLL for (uint m = 0; m < M; m++) {
                const uchar* p = own + m * group_room(blocks);
                Lane<W> w;
                W::load(p + lead + super + W::header + i % W::per * W::unit - from, lane, w.q);
                W::load_scales(p + lead + super + W::header + i % W::per * W::unit - from, super >= from ? p + lead + super - from : p, lane / 4, w.k);
                uint a[8];
                w.values(a);
                add_dots(all[m], a, v);
            }
        }
        UNROLL for (uint m = 0; m < M; m++) sums[m * 2] = all[m][0], sums[m * 2 + 1] = all[m][2];
    }

    static __device__ void put(const float (&sums)[values], Parts<1>& parts, uint m, uint warp, uint lane) {
        if (lane % 4 != 0) return;
        parts.at(warp, 0, lane / 4) = sums[m * 2];
        parts.at(warp, 0, lane / 4 + 8) = sums[m * 2 + 1];
    }
};
