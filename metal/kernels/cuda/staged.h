// Algorithms for products with many columns, whose activations are staged in shared memory. Staged
// divides the strands among warps, as those of tile.h do. In a Tile, each warp computes all strands
// of its results one after another.
#include "tile.h"

// Staged multiplies T tiles of 8 columns, with a warp for each strand of each M groups: warp 8*r+s
// takes strand s of groups M*r to M*r+M-1. Activations are staged in shared memory, where the R
// warps of a strand share them, and weights are read into registers, some blocks ahead. The launch
// gives the shared memory: algorithm.memory in metal/nvidia_weights.go.
template <class W, int M, int T, int R, int U>
struct Staged {
    enum { groups = M * R, columns = 8 * T, warps = strands * R, values = M * T * 4, complete = 0 };
    enum { stages = TILE_STAGES, parts = T / R };
    static_assert(T % R == 0, "the warps of a strand stage its activations together");

    const uchar* w[M];
    const uchar* own[parts]; // what the lane stages of block 0

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        uint strand = warp % strands, r = warp / strands, begin = strand_begin(strand, blocks), end = strand_begin(strand + 1, blocks);
        uint longest = (blocks + strands - 1) / strands;
        uint4* staging = shared + strand * (stages * U * columns * 4);
        UNROLL for (uint m = 0; m < M; m++) w[m] = computed_once(group(r * M + m));
        UNROLL for (uint i = 0; i < parts; i++) {
            uint of = row(8 * (r * parts + i) + lane / 4);
            own[i] = computed_once(x + ulong(of / 8) * blocks * column_bytes + 16 * (of % 8 * 4 + lane % 4));
        }
        uint4* to = staging + r * parts * 32 + lane;
        auto stage_blocks = [&](uint slot, uint first) {
            UNROLL for (uint u = 0; u < U; u++) {
                if (begin + first + u >= end) break;
                UNROLL for (uint i = 0; i < parts; i++) copy_early<16>(to + (slot * U + u) * columns * 4 + i * 32, own[i] + (begin + first + u) * column_bytes);
            }
            copied();
        };
        uint last = max(end, begin + 1) - 1;
        Lane<W> next[U][M];
        UNROLL for (uint i = 0; i < stages - 1; i++) stage_blocks(i, i * U);
        UNROLL for (uint u = 0; u < U; u++) load(next[u], min(begin + u, last), lane);
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint slot = 0;
        for (uint first = 0; first < longest; first += U) {
            wait_but<stages - 2>();
            __syncthreads();
            stage_blocks(slot == 0 ? stages - 1 : slot - 1, first + (stages - 1) * U);
            UNROLL for (uint u = 0; u < U; u++) {
                uint b = begin + first + u, a[M][8];
                UNROLL for (uint m = 0; m < M; m++) next[u][m].values(a[m]);
                load(next[u], min(b + U, last), lane); // not in a branch, so that nothing waits for it here
                if (b < end) add_tiles<M, T>(a, staging + (slot * U + u) * columns * 4 + lane, sums);
            }
            slot = slot == stages - 1 ? 0 : slot + 1;
        }
    }

    __device__ void load(Lane<W> (&to)[M], uint b, uint lane) const {
        UNROLL for (uint m = 0; m < M; m++) to[m].load(w[m], b, lane);
    }

    static __device__ void put(const float (&sums)[values], Parts<8 * T>& parts, uint m, uint warp, uint lane) {
        if (m / M != warp / strands) return;
        UNROLL for (uint i = 0; i < T * 4; i++) {
            parts.at(warp % strands, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2)) = sums[m % M * T * 4 + i];
        }
    }
};

// Tile multiplies many columns. Its R times C warps divide the results, not the strands: warp R*c+r
// takes groups r, R+r, ... (M in all) and tiles of 8 columns from T*c to T*c+T-1. Activations are
// staged in shared memory and weights are read into registers, some blocks ahead. The sums of
// finished strands are in shared memory too, since they are used only eight times. The launch gives
// the shared memory: algorithm.memory in metal/nvidia_weights.go.
template <class W, int M, int T, int R, int C>
struct Tile {
    enum { own_groups = M, groups = M * R, columns = 8 * T * C, warps = R * C, values = M * T * 4, complete = 1 };
    static_assert(TILE_BLOCKS % 2 == 0, "a block's place in a stage gives its place in a");
    enum { at_once = TILE_BLOCKS, stages = TILE_STAGES, threads = 32 * warps, parts = (columns * 4 + threads - 1) / threads };

    struct Stage {
        uint4 x[at_once][columns * 4];
    };

    const uchar* w[M];
    const uchar* own[parts]; // what the thread stages of block 0

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        Stage* staging = (Stage*)shared;
        float* finished = (float*)(staging + stages) + threadIdx.x; // of this thread, a stride of threads apart
        UNROLL for (uint m = 0; m < M; m++) w[m] = computed_once(group(m * R + warp % R));
        UNROLL for (uint i = 0; i < parts; i++) {
            uint part = min(threadIdx.x + i * threads, uint(columns * 4 - 1)), r = row(part / 4);
            own[i] = computed_once(x + ulong(r / 8) * blocks * column_bytes + 16 * (r % 8 * 4 + part % 4));
        }
        UNROLL for (uint i = 0; i < stages - 1; i++) stage_blocks(staging[i], i * at_once, blocks);
        UNROLL for (uint i = 0; i < values; i++) sums[i] = finished[i * threads] = 0;
        Lane<W> next[at_once][M];
        uint a[2][M][8]; // the weights of this block and of the next
        auto unpack = [&](uint b, uint u) {
            UNROLL for (uint m = 0; m < M; m++) {
                next[u % at_once][m].values(a[u % 2][m]);
                next[u % at_once][m].load(w[m], min(b + at_once, blocks - 1), lane);
            }
        };
        UNROLL for (uint u = 0; u < at_once; u++) {
            UNROLL for (uint m = 0; m < M; m++) next[u][m].load(w[m], min(u, blocks - 1), lane);
        }
        unpack(0, 0);
        uint strand = 0, end = strand_begin(1, blocks), slot = 0;
        for (uint first = 0; first < blocks; first += at_once) {
            wait_but<stages - 2>();
            __syncthreads();
            stage_blocks(staging[slot == 0 ? stages - 1 : slot - 1], first + (stages - 1) * at_once, blocks);
            UNROLL for (uint u = 0; u < at_once; u++) {
                uint b = first + u;
                if (b >= blocks) break;
                while (b >= end) {
                    UNROLL for (uint i = 0; i < values; i++) {
                        finished[i * threads] += sums[i], sums[i] = 0;
                        if (i % 8 == 7) few_registers();
                    }
                    end = strand_begin(++strand + 1, blocks);
                }
                unpack(b + 1, u + 1); // while tensor cores multiply this block
                add_tiles<M, T>(a[u % 2], staging[slot].x[u] + warp / R * T * 32 + lane, sums);
            }
            slot = slot == stages - 1 ? 0 : slot + 1;
        }
        UNROLL for (uint i = 0; i < values; i++) sums[i] = finished[i * threads] + sums[i];
    }

    __device__ void stage_blocks(Stage& to, uint first, uint blocks) const {
        UNROLL for (uint u = 0; u < at_once; u++) {
            if (first + u >= blocks) break;
            UNROLL for (uint i = 0; i < parts; i++) {
                uint part = threadIdx.x + i * threads;
                if (columns * 4 % threads == 0 || part < columns * 4) copy_early<16>(&to.x[u][part], own[i] + (first + u) * column_bytes);
            }
        }
        copied();
    }

    // each calls write(group, column, row, index) for each result of a lane in the first count
    // groups of its warp, where index is the result's index in sums.
    template <int count, class Write>
    static __device__ void each(uint warp, uint lane, Write write) {
        UNROLL for (uint m = 0; m < count; m++) {
            UNROLL for (uint i = 0; i < T * 4; i++) {
                write(m * R + warp % R, (warp / R * T + i / 4) * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2), m * T * 4 + i);
            }
        }
    }
};
