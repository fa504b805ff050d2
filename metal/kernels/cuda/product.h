// Products of packed weights, also in the gated form act(gate·x, up·x). A team is the warps that
// compute a tile of results together. Template argument A is the algorithm of a team, of tile.h,
// staged.h or warpgroups.h.
#include "join.h"
#include "fetched.h"

// Team identifies a warp's team and the warp's place in it.
template <class A>
struct Team {
    uint index, warp, lane;
    __device__ Team() : index(threadIdx.x / 32 / A::warps), warp(threadIdx.x / 32 % A::warps), lane(threadIdx.x % 32) {}
};

// joined returns the sums of all groups, in the shared memory that had the weights.
template <class A>
__device__ inline Parts<A::columns>* joined(const float (&sums)[A::values]) {
    extern __shared__ uint4 shared[];
    auto parts = (Parts<A::columns>*)shared;
    Team<A> team;
    __syncthreads();
    UNROLL for (uint m = 0; m < A::groups; m++) A::put(sums, parts[m], m, team.warp, team.lane);
    __syncthreads();
    return parts;
}

// finish joins the sums of all teams and calls write(team, group, column, row, sum) for each
// result. Where sums are joined at once, it leaves out columns from count on.
template <class A, int teams, class Write>
__device__ inline void finish(const float (&sums)[A::values], uint count, Write write) {
    Team<A> team;
    if constexpr (A::complete) {
        A::template each<A::own_groups>(team.warp, team.lane, [&](uint m, uint column, uint row, uint i) { write(team.index, m, column, row, sums[i]); });
    } else if constexpr (joins_at_once<A>) {
        auto parts = joined<A>(sums);
        for (uint i = threadIdx.x; i < A::groups * group_rows * min(count, uint(A::columns)); i += blockDim.x) {
            uint row = i % group_rows, m = i / group_rows % A::groups, column = i / group_rows / A::groups;
            write(0, m, column, row, parts[m].sum(column, row));
        }
    } else {
        __shared__ Parts<A::columns> parts[teams];
        UNROLL for (uint m = 0; m < A::groups; m++) {
            if (m > 0) __syncthreads();
            A::put(sums, parts[team.index], m, team.warp, team.lane);
            __syncthreads();
            for (uint i = threadIdx.x; i < teams * A::columns * group_rows; i += blockDim.x) {
                uint row = i % group_rows, column = i / group_rows % A::columns, t = i / group_rows / A::columns;
                write(t, m, column, row, parts[t].sum(column, row));
            }
        }
    }
}

// finish_gated is finish for products of gate and up: it calls write(team, group, column, row,
// gate, up). The first half of the groups belongs to gate, the second half to up.
template <class A, int teams, class Write>
__device__ inline void finish_gated(const float (&sums)[A::values], uint count, Write write) {
    Team<A> team;
    if constexpr (A::complete) {
        A::template each<A::own_groups / 2>(team.warp, team.lane, [&](uint m, uint column, uint row, uint i) {
            write(team.index, m, column, row, sums[i], sums[i + A::values / 2]);
        });
    } else if constexpr (joins_at_once<A>) {
        enum { half = A::groups / 2 };
        auto parts = joined<A>(sums);
        for (uint i = threadIdx.x; i < half * group_rows * min(count, uint(A::columns)); i += blockDim.x) {
            uint row = i % group_rows, m = i / group_rows % half, column = i / group_rows / half;
            write(0, m, column, row, parts[m].sum(column, row), parts[half + m].sum(column, row));
        }
    } else {
        enum { all = teams * A::columns * group_rows, threads = 32 * A::warps * teams, rounds = (all + threads - 1) / threads };
        __shared__ Parts<A::columns> parts[teams];
        auto sum = [&](uint i) { return parts[i / group_rows / A::columns].sum(i / group_rows % A::columns, i % group_rows); };
        UNROLL for (uint m = 0; m < A::groups / 2; m++) {
            float gates[rounds];
            if (m > 0) __syncthreads();
            A::put(sums, parts[team.index], m, team.warp, team.lane);
            __syncthreads();
            UNROLL for (uint u = 0; u < rounds; u++) {
                uint i = threadIdx.x + u * threads;
                if (i < all) gates[u] = sum(i);
            }
            __syncthreads();
            A::put(sums, parts[team.index], A::groups / 2 + m, team.warp, team.lane);
            __syncthreads();
            UNROLL for (uint u = 0; u < rounds; u++) {
                uint i = threadIdx.x + u * threads;
                if (i < all) write(i / group_rows / A::columns, m, i / group_rows % A::columns, i % group_rows, gates[u], sum(i));
            }
        }
    }
}

// multiply computes a team's sums for the groups of w from first on. all is the number of groups of
// w.
template <class A, class W, class RowOf>
__device__ inline void multiply(const uchar* w, uint first, uint all, const uchar* x, uint blocks, RowOf row, float (&sums)[A::values]) {
    Team<A> team;
    A().multiply([&](uint m) { return w + min(first + m, all - 1) * group_bytes<W>(blocks); }, x, blocks, team.warp, team.lane, row, sums);
}

// multiply_gated is multiply for groups of gate and of up.
template <class A, class W, class RowOf>
__device__ inline void multiply_gated(const uchar* gate, const uchar* up, uint first, uint all, const uchar* x, uint blocks, RowOf row, float (&sums)[A::values]) {
    enum { half = A::groups / 2 };
    Team<A> team;
    A().multiply([&](uint m) { return (m < half ? gate : up) + min(first + m % half, all - 1) * group_bytes<W>(blocks); }, x, blocks, team.warp, team.lane, row, sums);
}

__device__ inline uint groups_of(uint rows) { return (rows + group_rows - 1) / group_rows; }

// Part is a threadgroup's part of the rows of up to four weights, side by side.
struct Part {
    const uchar* w;
    uint tile;    // of the rows of w
    uint out;     // rows of w
    uint before;  // rows of the weights before w

    template <class Args>
    __device__ Part(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, uint tile, const Args& args) : w(w0), tile(tile), out(args.out0), before(0) {
        if (tile < args.tiles0) return;
        before = out, w = w1, out = args.out1, this->tile -= args.tiles0;
        if (this->tile < args.tiles1) return;
        before += out, w = w2, out = args.out2, this->tile -= args.tiles1;
        if (this->tile < args.tiles2) return;
        before += out, w = w3, out = args.out3, this->tile -= args.tiles2;
    }
};

struct ProductArgs {
    uint blocks;      // of 32 weights in a row, times W::parts
    uint rows;        // of activations
    uint room;        // rows between the activations of one matrix and of the next
    uint dst_stride;
    uint dst_matrix;  // values between the results of one matrix and of the next
    uint add;         // 1 to add results to dst
    uint out0, out1, out2, out3;   // rows of each weight
    uint tiles0, tiles1, tiles2;   // threadgroups of the first three weights
    uint column_tiles;
};

// product writes W·x for up to four weights, side by side, or for the matrices of one weight.
// Grid: (tiles of rows · tiles of columns, 1, matrices).
template <class W, class A, int teams>
__device__ void product(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, const ProductArgs& args) {
    Part part(w0, w1, w2, w3, blockIdx.x / args.column_tiles, args);
    uint column = blockIdx.x % args.column_tiles * A::columns, first = part.tile * teams * A::groups, out = part.out, all = groups_of(out);
    const uchar* w = part.w + blockIdx.z * all * group_bytes<W>(args.blocks);
    if constexpr (!waits_itself<A>) wait_for_previous();
    dst += ulong(blockIdx.z) * args.dst_matrix + part.before;
    float sums[A::values];
    multiply<A, W>(w, first + Team<A>().index * A::groups, all, x, args.blocks,
                   [&](uint c) { return blockIdx.z * args.room + min(column + c, args.rows - 1); }, sums);
    if constexpr (waits_itself<A>) start_next();
    finish<A, teams>(sums, args.rows - column, [&](uint team, uint group, uint c, uint r, float v) {
        uint o = (first + team * A::groups + group) * group_rows + r;
        if (column + c < args.rows && o < out) {
            float* to = dst + ulong(column + c) * args.dst_stride + o;
            *to = args.add != 0 ? *to + v : v;
        }
    });
}

struct GatedArgs {
    uint blocks;
    uint rows;
    uint out;
    uint dst_stride;
    uint column_tiles;
    uint activation;  // compute.Activation
    uint quantised;   // 1 if the results are also written as activations
};

// gated_product writes act(gate·x, up·x) to dst and, for the next product, quantised to packed.
// Grid: (tiles of rows · tiles of columns).
template <class W, class A, int teams>
__device__ void gated_product(const uchar* gate, const uchar* up, const uchar* x, float* dst, uchar* packed, const GatedArgs& args) {
    enum { groups = A::groups / 2 };
    uint first = blockIdx.x / args.column_tiles * teams * groups, column = blockIdx.x % args.column_tiles * A::columns;
    if constexpr (!waits_itself<A>) wait_for_previous(args.quantised == 0);
    float sums[A::values];
    multiply_gated<A, W>(gate, up, first + Team<A>().index * groups, groups_of(args.out), x, args.blocks,
                         [&](uint c) { return min(column + c, args.rows - 1); }, sums);
    if (waits_itself<A> || args.quantised != 0) start_next(); // see readsQuantised
    finish_gated<A, teams>(sums, args.rows - column, [&](uint team, uint group, uint c, uint r, float g, float u) {
        uint o = (first + team * groups + group) * group_rows + r;
        if (column + c >= args.rows || o >= args.out) return;
        float v = activate(args.activation, g, u);
        dst[ulong(column + c) * args.dst_stride + o] = v;
        if (args.quantised != 0) store_value(packed, column + c, args.out / 32, o, v);
    });
}

struct RowArgs {
    uint blocks;      // of 32 weights in a row, times W::parts
    uint x_matrix;    // values between the activations of one matrix and of the next
    uint dst_matrix;  // values between the results of one matrix and of the next
    uint add;         // 1 to add results to dst
    uint out0, out1, out2, out3;   // rows of each weight
    uint tiles0, tiles1, tiles2;   // threadgroups of the first three weights
    uint dims;        // values after each matrix's activations, which are rotated and written after the matrix's results; can be 0
    uint norm_threads;  // threads that normalise the row; 0 if the row is not normalised
    float eps;          // of the norm
    uint splits;        // splits of attention that are joined to make the row; 0 if nothing is joined
    uint value_dim;     // values of a head of that attention
    uint first_split;   // the first of those splits
    uint window;        // maximum number of positions of that attention; 0 for all
    uint sinks;         // 1 if gain has a score for the sink of each of its heads
    LatentArgs latent;  // of the latent that an additional threadgroup stores; its size can be 0
};

// join_row joins the splits of attention for values from first on of a row, and quantises them. It
// also writes the values to made unless made is null.
template <int parts>
__device__ inline void join_row(Row& row, const float* splits, const float* sinks, float* made, uint first, uint position, const RowArgs& args) {
    uint from = first_of(position, args.window), blocks = args.blocks / parts;
    for (uint i = threadIdx.x; i < 4 * blocks; i += blockDim.x) {
        uint value = first + 32 * (i / 4) + 4 * (i % 4);
        uint head = value / args.value_dim;
        const float* of_head = splits + (ulong(head) * args.splits + (from / split_keys - args.first_split)) * (args.value_dim + part_header);
        float4 low, high;
        join_splits(of_head, args.value_dim, from, position, args.sinks != 0 ? sinks[head] : lowest(), value % args.value_dim, low, high);
        row.put<parts>(i, low, high);
        if (made) {
            write_four(made + value, low);
            write_four(made + value + 16, high);
        }
    }
}

// row_product is product for one row of activations. Each threadgroup begins to stage its weights
// in shared memory while the previous kernel still runs. It then quantises the row into shared
// memory, and each team multiplies a group of rows of weights. The row is x, or each threadgroup
// computes it from x: by RMSNorm or, if x has splits of attention, by joining them; gain then has
// the sinks. The first threadgroup writes a computed row to made. If dims is not 0, the kernel
// computes MLA's Absorb, and an additional threadgroup per matrix rotates values. If there is a
// latent, the kernel computes MLA's Latents and the product of the compressed query, and an
// additional threadgroup stores the latent. R is the number of rounds of RMSNorm. Grid: (groups of
// rows / teams, 1, matrices).
template <class W, class A, int teams, int R>
__device__ void row_product(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const float* x, const float* table, const Slot* at, const float* gain, float* made,
                            float* dst, float* latent, const float* latent_gain, uchar* keys, const RowArgs& args) {
    extern __shared__ uint4 shared[];
    __shared__ Parts<A::columns> parts[teams];
    uint begin = blockIdx.z * args.x_matrix, blocks = args.blocks / W::parts;
    dst += ulong(blockIdx.z) * args.dst_matrix;
    if (args.dims > 0 && blockIdx.x == args.tiles0) {
        wait_for_previous();
        rotate(x + begin + 32 * blocks, dst + args.out0, table + ulong(at->position) * args.dims, args.dims / 2);
        return;
    }
    if (args.latent.latent > 0 && blockIdx.x == gridDim.x - 1) {
        store_latent<R>(latent, latent_gain, table, *at, keys, args.latent);
        return;
    }
    Part part(w0, w1, w2, w3, blockIdx.x, args);
    uint bytes = group_bytes<W>(args.blocks), all = groups_of(part.out), first = part.tile * teams, count = min(uint(teams), all - first);
    uchar* weights = (uchar*)shared + Row::bytes(args.blocks);
    stage(weights, part.w + (ulong(blockIdx.z) * all + first) * bytes, count * bytes, threadIdx.x, blockDim.x);
    NormRow<R> norm(gain, blocks, args.norm_threads);
    if (blockIdx.x > 0) made = nullptr;
    Row row(shared);
    wait_for_previous();
    if (args.norm_threads > 0) {
        norm.normalise(x, made, blocks, args.eps, [&](uint u, float4 low, float4 high) {
            if (norm.values.has(u)) row.put<W::parts>(threadIdx.x + u * args.norm_threads, low, high);
        });
    } else if (args.splits > 0) {
        join_row<W::parts>(row, x, gain, made, begin, at->position, args);
    } else {
        row.fill<W::parts>([&](uint i) { return read_four(x + begin + i); }, blocks, threadIdx.x, blockDim.x);
    }
    staged();
    __syncthreads();
    Team<A> team;
    if (team.index < count) {
        float sums[A::values];
        A().multiply([&](uint) { return weights + team.index * bytes; }, row, args.blocks, team.warp, team.lane, sums);
        A::put(sums, parts[team.index], 0, team.warp, team.lane);
    }
    __syncthreads();
    dst += part.before + first * group_rows;
    for (uint i = threadIdx.x; i < teams * group_rows && first * group_rows + i < part.out; i += blockDim.x) {
        float v = parts[i / group_rows].sum(0, i % group_rows);
        dst[i] = args.add != 0 ? dst[i] + v : v;
    }
}

struct RowGatedArgs {
    uint blocks;        // of 32 weights in a row, times W::parts
    uint out;
    uint activation;    // compute.Activation
    uint norm_threads;  // threads that normalise the row; 0 if the row is not normalised
    float eps;          // of the norm
};

// row_gated_product is gated_product for one row of activations, in the way of row_product. The row
// is x or, if norm_threads is not 0, its RMSNorm, which the first threadgroup writes to made. R is
// the number of rounds of the norm. Grid: groups of rows / teams.
template <class W, class A, int teams, int R>
__device__ void row_gated_product(const uchar* gate, const uchar* up, const float* x, const float* gain, float* made, float* dst, const RowGatedArgs& args) {
    extern __shared__ uint4 shared[];
    __shared__ Parts<A::columns> parts[teams][2];
    uint blocks = args.blocks / W::parts, bytes = group_bytes<W>(args.blocks), all = groups_of(args.out), first = blockIdx.x * teams, count = min(uint(teams), all - first);
    uchar *gates = (uchar*)shared + Row::bytes(args.blocks), *ups = gates + teams * bytes;
    stage(gates, gate + ulong(first) * bytes, count * bytes, threadIdx.x, blockDim.x);
    stage(ups, up + ulong(first) * bytes, count * bytes, threadIdx.x, blockDim.x);
    NormRow<R> norm(gain, blocks, args.norm_threads);
    if (blockIdx.x > 0) made = nullptr;
    Row row(shared);
    wait_for_previous();
    if (args.norm_threads > 0) {
        norm.normalise(x, made, blocks, args.eps, [&](uint u, float4 low, float4 high) {
            if (norm.values.has(u)) row.put<W::parts>(threadIdx.x + u * args.norm_threads, low, high);
        });
    } else {
        row.fill<W::parts>([&](uint i) { return read_four(x + i); }, blocks, threadIdx.x, blockDim.x);
    }
    staged();
    __syncthreads();
    Team<A> team;
    if (team.index < count) {
        float sums[A::values];
        A().multiply([&](uint m) { return (m == 0 ? gates : ups) + team.index * bytes; }, row, args.blocks, team.warp, team.lane, sums);
        UNROLL for (uint m = 0; m < 2; m++) A::put(sums, parts[team.index][m], m, team.warp, team.lane);
    }
    __syncthreads();
    dst += first * group_rows;
    for (uint i = threadIdx.x; i < teams * group_rows && first * group_rows + i < args.out; i += blockDim.x) {
        Parts<A::columns>* own = parts[i / group_rows];
        dst[i] = activate(args.activation, own[0].sum(0, i % group_rows), own[1].sum(0, i % group_rows));
    }
}
