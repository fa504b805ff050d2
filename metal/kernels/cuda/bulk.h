// Algorithms for up to 64 columns on Hopper. Weights and activations come to shared memory by bulk
// copies. These take no registers, and no thread waits for its earlier ones when it makes shared
// memory visible to tensor cores, so that many stages are in flight.
#include "warpgroups.h"

// Bulk multiplies four groups with T tiles of 8 columns on each of G warpgroups. A warp takes all
// strands of its group. U blocks are a stage, and S stages are in shared memory; the first thread
// of each warp copies what the next ones need. Before a stage is multiplied, the threads arrange
// its activations as tensor cores read them. The number of blocks is a multiple of U, since tensor
// cores would wait for each other if stages ended in different places. The launch gives the shared
// memory: algorithm.memory in metal/nvidia_geometry.go.
template <class W, int T, int G, int U, int S>
struct Bulk {
    enum { own_groups = 1, groups = 4 * G, columns = 8 * T, warps = 4 * G, values = 4 * T, complete = 1 };
    enum { pieces = U * T, own_pieces = (pieces + warps - 1) / warps, own_tiles = (T + warps - 1) / warps };
    static_assert(U % 2 == 0, "a block's place in a stage gives its place in a");
    static_assert(W::parts == 1, "a stage has as many blocks of weights as of activations");
    static_assert(W::header == 0 || W::per % U == 0, "a stage is part of a super-block");

    struct Stage {
        uint4 x[pieces][32]; // the blocks of the first 8 columns, then those of the next
        uchar w[groups][W::header + U * W::unit];
    };

    // Columns are the activations of a stage as tensor cores read them: for each block and each 8
    // columns, the i-th word of all lanes' activations (activations.h) is contiguous.
    struct Columns {
        uint x[U][T][4][32];
    };

    Stage* staging;
    ulong* arrived;        // a barrier of each stage
    const uchar* w;        // the warp's group
    const uchar* tiles[own_tiles]; // block 0 of the columns that the warp copies

    // multiply computes the warp's sums. It waits for the previous kernel after it began to copy
    // weights.
    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        float strand[values];
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint end = strand_begin(1, blocks), next_strand = 2;
        stream(group, x, blocks, 0, blocks, warp, lane, row, strand, [&](uint b) {
            if (b < end) return;
            wait_for_tensor_cores<0>();
            while (b >= end) {
                UNROLL for (uint i = 0; i < values; i++) sums[i] += strand[i], strand[i] = 0;
                end = strand_begin(next_strand++, blocks);
            }
        });
        UNROLL for (uint i = 0; i < values; i++) sums[i] += strand[i];
    }

    // stream adds the products of the blocks from begin to end-1, whole stages, to sums that begin
    // at 0. It calls before(b) before block b.
    template <class Group, class RowOf, class Before>
    __device__ void stream(Group group, const uchar* x, uint blocks, uint begin, uint end, uint warp, uint lane, RowOf row, float (&sums)[values], Before before) {
        extern __shared__ uint4 shared[];
        staging = (Stage*)shared;
        Columns* arranged = (Columns*)(staging + S);
        arrived = (ulong*)(arranged + 2);
        w = computed_once(group(warp));
        UNROLL for (uint i = 0; i < own_tiles; i++) tiles[i] = x + ulong(row(8 * min(warp + i * warps, uint(T - 1))) / 8) * blocks * column_bytes;
        if (threadIdx.x == 0) prepare_arrivals(arrived, S);
        __syncthreads();
        UNROLL for (uint i = 0; i < S; i++) {
            if (begin + i * U < end) copy_weights(i, begin + i * U, warp, lane);
        }
        wait_for_previous(false); // the next kernel has no room beside this one
        UNROLL for (uint i = 0; i < S; i++) {
            if (begin + i * U < end) copy_columns(i, begin + i * U, warp, lane);
        }
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint a[2][8]; // the weights of this block and of the next
        uint first = begin, slot = 0, phase = 0, odd = 0;
        do {
            wait_for_arrival(arrived + slot, phase);
            const uchar* own = staging[slot].w[warp];
            Lane<W> packed;
            auto read = [&](uint u) {
                const uchar* unit = own + W::header + u * W::unit;
                W::load(unit, lane, packed.q);
                W::load_scales(unit, own, lane / 4, packed.k);
            };
            read(0);
            arrange(staging[slot], arranged[odd], warp, lane);
            packed.values(a[0]);
            wait_for_tensor_cores<0>();
            show_to_tensor_cores();
            __syncthreads();
            if (first > begin && first + (S - 1) * U < end) {
                uint last = slot == 0 ? S - 1 : slot - 1;
                copy_weights(last, first + (S - 1) * U, warp, lane);
                copy_columns(last, first + (S - 1) * U, warp, lane);
            }
            UNROLL for (uint u = 0; u < U; u++) {
                before(first + u);
                if (u < U - 1) read(u + 1);
                multiply_columns<T>(sums, a[u % 2], arranged[odd].x[u]);
                wait_for_tensor_cores<1>();
                if (u < U - 1) packed.values(a[(u + 1) % 2]); // while tensor cores multiply this block
            }
            slot = slot == S - 1 ? 0 : slot + 1, phase ^= slot == 0, odd ^= 1;
            first += U;
        } while (first < end); // at least once: without a way around the loop, tensor cores need not wait before it
        wait_for_tensor_cores<0>();
    }

    // copy_weights begins to copy the warp's weights of the stage that begins with block first, and
    // copy_columns its part of the activations.
    __device__ void copy_weights(uint slot, uint first, uint warp, uint lane) const {
        if (lane > 0) return;
        Stage& to = staging[slot];
        if (warp == 0) expect_arrival(arrived + slot, sizeof(Stage));
        const uchar* super = super_block<W>(w, first);
        if constexpr (W::header > 0 && U < W::per) {
            copy_bulk(to.w[warp], super, W::header, arrived + slot);
            copy_bulk(to.w[warp] + W::header, block<W>(super, first), U * W::unit, arrived + slot);
        } else {
            copy_bulk(to.w[warp], super, sizeof(to.w[warp]), arrived + slot);
        }
    }
    __device__ void copy_columns(uint slot, uint first, uint warp, uint lane) const {
        if (lane > 0) return;
        UNROLL for (uint i = 0; i < own_tiles; i++) {
            uint t = warp + i * warps;
            if (T % warps == 0 || t < T) copy_bulk(staging[slot].x[t * U], tiles[i] + first * column_bytes, U * column_bytes, arrived + slot);
        }
    }

    static __device__ void arrange(const Stage& from, Columns& to, uint warp, uint lane) {
        uint4 read[own_pieces];
        UNROLL for (uint i = 0; i < own_pieces; i++) {
            if (pieces % warps == 0 || warp + i * warps < pieces) read[i] = from.x[warp + i * warps][lane];
        }
        UNROLL for (uint i = 0; i < own_pieces; i++) {
            uint p = warp + i * warps;
            if (pieces % warps != 0 && p >= pieces) break;
            uint(&words)[4][32] = to.x[p % U][p / U];
            words[0][lane] = read[i].x, words[1][lane] = read[i].y, words[2][lane] = read[i].z, words[3][lane] = read[i].w;
        }
    }

    // each is that of Warpgroups.
    template <int count, class Write>
    static __device__ void each(uint warp, uint lane, Write write) {
        UNROLL for (uint i = 0; i < values; i++) write(warp, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2), i);
    }
};

template <class W, int T, int G, int U, int S>
struct GatedBulk : ForGated<Bulk<W, T, G, U, S>> {};

// Bulk waits for the previous kernel itself, and does not start the next one.
template <class W, int T, int G, int U, int S>
constexpr bool waits_itself<Bulk<W, T, G, U, S>> = true;
template <class W, int T, int G, int U, int S>
constexpr bool waits_itself<GatedBulk<W, T, G, U, S>> = true;
