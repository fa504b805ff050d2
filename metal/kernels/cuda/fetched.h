// Fetched multiplies M groups of weights with T tiles of 8 columns on Hopper, for few columns. One
// thread copies the groups to shared memory by bulk copies, which take no registers and few
// instructions, so that many bytes are in flight. Then each of eight warps multiplies a strand. It
// reads the activations of U blocks before it uses the first. If early is 1, the next kernel may
// start as soon as the previous one has ended. Then the sums of the strands are joined in the
// shared memory that had the weights. The launch gives it: packedKernel.memory in
// metal/nvidia_weights.go.
#include "bulk.h"

template <class W, int M, int T, int early, int U>
struct Fetched {
    enum { groups = M, columns = 8 * T, warps = strands, values = M * T * 4, complete = 0 };

    // multiply computes the warp's sums. All threads of the threadgroup call it. It waits for the
    // previous kernel after it began to copy the weights.
    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        __shared__ ulong arrived[1];
        const uchar* fetched = (const uchar*)shared;
        uint bytes = group_bytes<W>(blocks);
        if (threadIdx.x == 0) {
            prepare_arrivals(arrived, 1);
            show_to_tensor_cores();
            expect_arrival(arrived, M * bytes);
            UNROLL for (uint m = 0; m < M; m++) copy_bulk((uchar*)shared + m * bytes, group(m), bytes, arrived);
        }
        wait_for_previous(early != 0);
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint begin = strand_begin(warp, blocks), end = strand_begin(warp + 1, blocks);
        const uchar* own[T];
        UNROLL for (uint t = 0; t < T; t++) {
            uint r = row(8 * t + lane / 4);
            own[t] = x + (ulong(r / 8) * blocks + begin) * column_bytes + 16 * (r % 8 * 4 + lane % 4);
        }
        uint4 v[U][T];
        auto read = [&](uint u, uint b) {
            UNROLL for (uint t = 0; t < T; t++) v[u][t] = *(const uint4*)(own[t] + (b - begin) * column_bytes);
        };
        UNROLL for (uint u = 0; u < U; u++) {
            if (begin + u < end) read(u, begin + u);
        }
        Place<W> at(begin);
        __syncthreads();
        wait_for_arrival(arrived, 0);
        for (uint first = begin; first < end; first += U) {
            UNROLL for (uint u = 0; u < U; u++) {
                if (first + u >= end) break;
                UNROLL for (uint m = 0; m < M; m++) {
                    Lane<W> w;
                    w.load(fetched + m * bytes + at.super, fetched + m * bytes + at.block, lane);
                    add_tiles<W, T>(w, v[u], sums + m * T * 4);
                }
                at.advance();
                if (first + u + U < end) read(u, first + u + U);
            }
        }
    }

    // put is that of Tensor for one strand.
    static __device__ void put(const float (&sums)[values], Parts<8 * T>& parts, uint m, uint warp, uint lane) {
        UNROLL for (uint i = 0; i < T * 4; i++) parts.at(warp, i / 4 * 8 + lane % 4 * 2 + i % 2, lane / 4 + 8 * (i / 2 % 2)) = sums[m * T * 4 + i];
    }
};

// FetchedStrands is Fetched for one tile and for types whose scales take many instructions. Each
// warp copies its strand itself, and waits for no other. The four lanes of a row of weights each
// compute the scales of one of four blocks, and exchange them.
template <class W, int M, int T, int early, int U>
struct FetchedStrands : Fetched<W, M, T, early, U> {
    enum { values = Fetched<W, M, T, early, U>::values };
    static_assert(T == 1 && U == 4 && W::header > 0 && W::minimum != 0 && W::halves == 0, "a round has four blocks of one tile, with scales and minimums");

    // multiply is that of Fetched.
    template <class Group, class RowOf>
    __device__ void multiply(Group group, const uchar* x, uint blocks, uint warp, uint lane, RowOf row, float (&sums)[values]) {
        extern __shared__ uint4 shared[];
        __shared__ ulong arrived[strands];
        const uchar* fetched = (const uchar*)shared;
        uint bytes = group_bytes<W>(blocks), begin = strand_begin(warp, blocks), end = strand_begin(warp + 1, blocks);
        Place<W> at(begin);
        if (lane == 0) copy_strand(group, at, begin, end, bytes, arrived + warp);
        __syncwarp();
        wait_for_previous(early != 0);
        UNROLL for (uint i = 0; i < values; i++) sums[i] = 0;
        uint r = row(lane / 4);
        const uchar* own = x + (ulong(r / 8) * blocks + begin) * column_bytes + 16 * (r % 8 * 4 + lane % 4);
        uint4 v[U];
        auto read = [&](uint u, uint b) { v[u] = *(const uint4*)(own + (b - begin) * column_bytes); };
        UNROLL for (uint u = 0; u < U; u++) {
            if (begin + u < end) read(u, begin + u);
        }
        wait_for_arrival(arrived + warp, 0);
        for (uint first = begin; first < end; first += U) {
            Scales scales[M]; // of block lane%4 of the round
            Place<W> of(min(first + lane % 4, end - 1));
            UNROLL for (uint m = 0; m < M; m++) scales[m] = Lane<W>::read_scales(fetched + m * bytes + of.super, fetched + m * bytes + of.block, lane);
            UNROLL for (uint u = 0; u < U; u++) {
                if (first + u >= end) break;
                UNROLL for (uint m = 0; m < M; m++) {
                    typename W::Integers q;
                    W::load(fetched + m * bytes + at.block, lane, q);
                    uint a[8], from = lane / 4 * 4 + u;
                    W::values(q, a);
                    Scales s = {__shfl_sync(~0u, scales[m].d, from), __shfl_sync(~0u, scales[m].m, from)};
                    Lane<W>::scale(a, s);
                    Lane<W>::scale(a + 4, s);
                    add_dots(sums + 4 * m, a, v[u]);
                }
                at.advance();
                if (first + u + U < end) read(u, first + u + U);
            }
        }
    }

    // copy_strand begins to copy a strand of all groups, from place at, to the same offsets in
    // shared memory.
    template <class Group>
    static __device__ void copy_strand(Group group, const Place<W>& at, uint begin, uint end, uint bytes, ulong* arrived) {
        extern __shared__ uint4 shared[];
        prepare_arrivals(arrived, 1);
        show_to_tensor_cores();
        if (begin >= end) {
            expect_arrival(arrived, 0);
            return;
        }
        bool within = at.index > 0; // the header of the super-block comes before the strand
        uint from = within ? at.block : at.super, size = Place<W>(end - 1).block + W::unit - from;
        expect_arrival(arrived, M * (size + (within ? W::header : 0)));
        UNROLL for (uint m = 0; m < M; m++) {
            uchar* to = (uchar*)shared + m * bytes;
            if (within) copy_bulk(to + at.super, group(m) + at.super, W::header, arrived);
            copy_bulk(to + from, group(m) + from, size, arrived);
        }
    }
};

template <class W, int M, int T, int early, int U>
constexpr bool waits_itself<Fetched<W, M, T, early, U>> = true;
template <class W, int M, int T, int early, int U>
constexpr bool waits_itself<FetchedStrands<W, M, T, early, U>> = true;

// joins_at_once is true for an algorithm with one team that joins the sums of all groups together.
template <class A>
constexpr bool joins_at_once = false;
template <class W, int M, int T, int early, int U>
constexpr bool joins_at_once<Fetched<W, M, T, early, U>> = true;
template <class W, int M, int T, int early, int U>
constexpr bool joins_at_once<FetchedStrands<W, M, T, early, U>> = true;
