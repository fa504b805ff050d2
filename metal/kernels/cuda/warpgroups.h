// Algorithms for products with many columns on Hopper, where four warps (a warpgroup) multiply
// together and read activations from shared memory by themselves (wgmma). The instruction adds in
// the order of mma.m16n8k16, so results have the same bits as those of the other algorithms.
#include "staged.h"

// unpack makes float16 of packed weights for multiply_columns. Weights of 16 bits need no
// arithmetic for that, and the compiler would use the registers that memory is read into, and let
// each multiplication wait for the one before. zero is a 0 that it does not know.
template <class W>
__device__ inline void unpack(const Lane<W>& w, uint (&a)[8], uint zero) {
    w.values(a);
    if constexpr (W::scaled == 0) {
        UNROLL for (uint i = 0; i < 8; i++) a[i] = other_register(a[i], zero);
    }
}

// Warpgroups multiplies four groups with T tiles of 8 columns on each of G warpgroups. A warp takes
// all strands of its group. Activations are staged in shared memory, as many blocks at a time as
// blocks_at_once; S stages are in use. While tensor cores multiply a stage, the threads read the
// activations of the next but one and the weights of the next into registers. The launch gives the
// shared memory: algorithm.memory in metal/nvidia_geometry.go.
template <class W, int T, int G, int blocks_at_once, int S>
struct Warpgroups {
    enum { own_groups = 1, groups = 4 * G, columns = 8 * T, warps = 4 * G, values = 4 * T, complete = 1 };
    enum { U = W::scaled ? blocks_at_once : blocks_at_once / 2, stages = S, threads = 32 * warps, parts = columns * 4 / threads };
    static_assert(U % 2 == 0, "a block's place in a stage gives its place in a");
    static_assert(columns * 4 % threads == 0, "all threads stage the same number of parts");
    static_assert(S >= 3, "tensor cores may still multiply a stage while the next but one is written");

    // A Stage has the activations as tensor cores read them: for each block and each 8 columns, the
    // i-th word of all lanes' activations (activations.h) is contiguous.
    struct Stage {
        uint x[U][columns / 8][4][32];
    };

    const uchar* w;
    const uchar* own[parts]; // what the thread stages of block 0
    uint4 read[U][parts];
    Lane<W> packed[2][U];    // of this stage and of the next
    float strand[values];

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        multiply_strands(group, x, blocks, 0, strands, warp, lane, row, sums);
    }

    // multiply_strands adds the strands from first_strand to last_strand-1 to sums.
    template <class Group, class RowOf>
    __device__ void multiply_strands(Group group, const uchar* x, uint all, uint first_strand, uint last_strand, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        Stage* staging = (Stage*)shared;
        uint begin = strand_begin(first_strand, all), blocks = strand_begin(last_strand, all);
        w = computed_once(group(warp));
        UNROLL for (uint i = 0; i < parts; i++) {
            uint part = threadIdx.x + i * threads, r = row(part / 4);
            own[i] = computed_once(x + ulong(r / 8) * all * column_bytes + 16 * (r % 8 * 4 + part % 4));
        }
        UNROLL for (uint i = 0; i < values; i++) strand[i] = 0;
        read_stage(begin, blocks);
        read_weights(packed[0], begin, blocks, lane);
        write_stage(staging[0], warp, lane);
        read_stage(begin + U, blocks);
        uint a[2][8], zero = all >> 31; // the weights of this block and of the next
        unpack(packed[0][0], a[0], zero);
        uint end = strand_begin(first_strand + 1, all), next_strand = first_strand + 2, slot = 0;
        for (uint two = begin; two < blocks; two += 2 * U) {
            UNROLL for (uint s = 0; s < 2; s++) {
                uint first = two + s * U, following = slot == stages - 1 ? 0 : slot + 1;
                if (first >= blocks) break;
                __syncthreads();
                UNROLL for (uint u = 0; u < U; u++) {
                    uint b = first + u;
                    if (b >= blocks) break;
                    if (b >= end) {
                        wait_for_tensor_cores<0>();
                        while (b >= end) {
                            UNROLL for (uint i = 0; i < values; i++) sums[i] += strand[i], strand[i] = 0;
                            end = strand_begin(next_strand++, all);
                        }
                    }
                    multiply_columns<T>(strand, a[u % 2], staging[slot].x[u]);
                    wait_for_tensor_cores<1>();
                    if (u == 0) {
                        write_stage(staging[following], warp, lane);
                        // That waits for all earlier reads. So all others come now, and have until
                        // the next stage.
                        read_stage(first + 2 * U, blocks);
                        read_weights(packed[1 - s], first + U, blocks, lane);
                    }
                    unpack(u < U - 1 ? packed[s][u + 1] : packed[1 - s][0], a[(u + 1) % 2], zero); // while tensor cores multiply this block
                }
                slot = following;
            }
        }
        wait_for_tensor_cores<0>();
        UNROLL for (uint i = 0; i < values; i++) sums[i] += strand[i];
    }

    __device__ void read_weights(Lane<W> (&to)[U], uint first, uint blocks, uint lane) const {
        UNROLL for (uint u = 0; u < U; u++) to[u].load(w, min(first + u, blocks - 1), lane);
    }

    __device__ void read_stage(uint first, uint blocks) {
        UNROLL for (uint u = 0; u < U; u++) {
            UNROLL for (uint i = 0; i < parts; i++) read[u][i] = *(const uint4*)(own[i] + min(first + u, blocks - 1) * column_bytes);
        }
    }

    __device__ void write_stage(Stage& to, uint warp, uint lane) const {
        UNROLL for (uint u = 0; u < U; u++) {
            UNROLL for (uint i = 0; i < parts; i++) {
                uint(&words)[4][32] = to.x[u][warp + i * warps];
                words[0][lane] = read[u][i].x, words[1][lane] = read[u][i].y, words[2][lane] = read[u][i].z, words[3][lane] = read[u][i].w;
            }
        }
        show_to_tensor_cores();
    }

    // each calls write(group, column, row, index) for each result of a lane, where index is the
    // result's index in sums.
    template <int count, class Write>
    static __device__ void each(uint warp, uint lane, Write write) {
        UNROLL for (uint i = 0; i < values; i++) write(warp, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2), i);
    }
};

// ForGated makes of an algorithm of warpgroups one for gate and up: the first half of its warps
// takes gate and the other half takes up. Then they exchange half of the columns, so that a thread
// has the products of both.
template <class A>
struct ForGated {
    enum { own_groups = 2, groups = A::groups, columns = A::columns, warps = A::warps, values = A::values, complete = 1, threads = 32 * warps, half = warps / 2 };

    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        A().multiply(group, x, blocks, warp, lane, row, sums);
        float* exchanged = (float*)shared;
        bool up = warp >= half;
        uint other = up ? threadIdx.x - threads / 2 : threadIdx.x + threads / 2;
        __syncthreads(); // no warpgroup reads activations any more
        UNROLL for (uint i = 0; i < values / 2; i++) exchanged[i * threads + threadIdx.x] = up ? sums[i] : sums[i + values / 2];
        __syncthreads();
        UNROLL for (uint i = 0; i < values / 2; i++) {
            float v = exchanged[i * threads + other];
            if (up) sums[i] = v;
            else sums[i + values / 2] = v;
        }
    }

    // each is that of Warpgroups, for the gate products; those of up follow values/2 later in sums.
    template <int count, class Write>
    static __device__ void each(uint warp, uint lane, Write write) {
        UNROLL for (uint i = 0; i < values / 2; i++) {
            write(warp % half, (warp / half * (values / 8) + i / 4) * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2), i);
        }
    }
};

template <class W, int T, int G, int blocks_at_once, int S>
struct GatedWarpgroups : ForGated<Warpgroups<W, T, G, blocks_at_once, S>> {};
