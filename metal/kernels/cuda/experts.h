// The mixture of experts. A choice is a row of activations with one of its experts: choice
// row*slots+k has the k-th expert of the row's routing. If there are shared experts, they are the
// last choice of each row.
#include "choose.h"
#include "product.h"
#include "streamed.h"

struct GroupArgs {
    uint rows;
    uint used;
    uint slots;           // choices per row: used, plus 1 if there are shared experts
    uint experts;
    uint routing_stride;
    uint tiles;           // length of the list of tiles
    uint tile;            // maximum number of choices per tile
};

// ExpertTile describes some choices of one expert. The shared experts have the number args.experts.
struct ExpertTile {
    uint expert;
    uint first;  // index of the first choice in the list
    uint count;  // number of choices; 0 if the tile is unused
};

// group_choices sorts the choices by expert and row and divides them into tiles. A threadgroup
// takes an expert; the last threadgroup takes the shared experts. Each threadgroup counts the
// choices of all experts to find its place in the list, and each of its threads takes neighbouring
// choices. Shared memory has experts+1 integers. Grid: experts+1.
extern "C" __global__ void __launch_bounds__(256) group_choices(const float* routing, uint* choices, ExpertTile* tiles, GroupArgs args) {
    enum { at_once = 8 };
    extern __shared__ uint counts[];
    __shared__ uint before[8];
    uint tid = threadIdx.x, lane = tid % 32, warp = tid / 32, e = blockIdx.x, all = args.rows * args.used;
    uint each = (all + blockDim.x - 1) / blockDim.x, first = min(tid * each, all), end = min(first + each, all);
    // for_own calls use(expert, choice) for the thread's choices.
    auto for_own = [&](auto use) {
        uint row = first / args.used, k = first % args.used;
        for (uint i = first; i < end; i += at_once) {
            uint experts[at_once], own[at_once];
            UNROLL for (uint j = 0; j < at_once; j++) {
                if (i + j >= end) break;
                experts[j] = uint(routing[ulong(row) * args.routing_stride + k]), own[j] = row * args.slots + k;
                if (++k == args.used) k = 0, row++;
            }
            UNROLL for (uint j = 0; j < at_once; j++) {
                if (i + j < end) use(experts[j], own[j]);
            }
        }
    };
    for (uint i = tid; i <= args.experts; i += blockDim.x) counts[i] = i < args.experts ? 0 : (args.slots - args.used) * args.rows;
    wait_for_previous();
    __syncthreads();
    uint own = 0; // choices of expert e
    for_own([&](uint expert, uint) {
        atomicAdd(&counts[expert], 1u);
        if (expert == e) own++;
    });
    uint upto = own; // of this lane and of those before
    UNROLL for (uint m = 1; m < 32; m *= 2) {
        uint v = __shfl_up_sync(~0u, upto, m);
        if (lane >= m) upto += v;
    }
    if (lane == 31) before[warp] = upto;
    __syncthreads();
    uint at = 0, tile = 0, count = counts[e];
    for (uint i = lane; i < e; i += 32) {
        at += counts[i];
        tile += (counts[i] + args.tile - 1) / args.tile;
    }
    at = __reduce_add_sync(~0u, at);
    tile = __reduce_add_sync(~0u, tile);
    for (uint i = tid; args.tile * i < count; i += blockDim.x) tiles[tile + i] = {e, at + args.tile * i, min(count - args.tile * i, args.tile)};
    if (e == args.experts) { // this threadgroup also marks the rest of the tiles as unused
        for (uint i = tile + (count + args.tile - 1) / args.tile + tid; i < args.tiles; i += blockDim.x) tiles[i].count = 0;
        for (uint i = tid; i < count; i += blockDim.x) choices[at + i] = i * args.slots + args.used;
        return;
    }
    if (own == 0) return;
    uint to = at + upto - own;
    for (uint w = 0; w < warp; w++) to += before[w];
    for_own([&](uint expert, uint choice) {
        if (expert == e) choices[to++] = choice;
    });
}

struct ExpertsArgs {
    uint blocks;          // blocks of 32 weights in a row
    uint out;             // rows of an expert
    uint experts;
    uint used;
    uint slots;
    uint shared_blocks;   // of the shared experts
    uint shared_out;
    uint room;            // rows between the activations of choice k of all rows and of choice k+1
    uint routing_stride;
    uint dst_stride;
    uint activation;      // compute.Activation
    uint biased;          // 1 if the products of the routed experts have biases
    uint quantised;       // 1 if gated_experts also writes its results as activations
    uint gated;           // 1 if the results of the shared experts are multiplied by a gate
    uint gate_stride;
};

// Choices are the choices that a threadgroup takes.
struct Choices {
    const uint* list;
    uint first, count, expert;

    __device__ uint at(uint i) const { return list[first + min(i, count - 1)]; }
};

// listed returns the choices of tile blockIdx.y.
__device__ inline Choices listed(const uint* list, const ExpertTile* tiles) {
    ExpertTile t = tiles[blockIdx.y];
    return {list, t.first, t.count, t.expert};
}

// open returns the result of a shared expert after its gate, like sigmoid_gate of rows.metal.
__device__ inline float open(float v, float gate) { return v / (1.0f + expf(-gate)); }

// gated_experts writes act(gate·x, up·x) of choices to dst, where a row has its choices side by
// side, and, for experts_down, quantised to packed. gates has a gate of the shared experts per row.
// Grid: (tiles of rows of weights, tiles of choices).
template <class W, class A, int teams>
__device__ inline void gated_experts(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, const uint* list,
                                     const ExpertTile* tiles, const float* gate_bias, const float* up_bias, const float* gates, float* dst, uchar* packed,
                                     const ExpertsArgs& args) {
    enum { groups = A::groups / 2 };
    wait_for_previous(args.quantised == 0);
    Choices choices = listed(list, tiles);
    bool shared = choices.expert == args.experts;
    uint out = shared ? args.shared_out : args.out, all = groups_of(out), first = blockIdx.x * teams * groups;
    if (choices.count == 0 || first >= all) return;
    ulong at = shared ? 0 : choices.expert * all * group_bytes<W>(args.blocks);
    float sums[A::values];
    multiply_gated<A, W>((shared ? shared_gate : gate) + at, (shared ? shared_up : up) + at, first + Team<A>().index * groups, all, x, args.blocks,
                         [&](uint c) { return choices.at(c) / args.slots; }, sums);
    bool biased = args.biased != 0 && !shared;
    if (args.quantised != 0) start_next();
    finish_gated<A, teams>(sums, choices.count, [&](uint team, uint group, uint c, uint r, float g, float u) {
        uint o = (first + team * groups + group) * group_rows + r;
        if (c >= choices.count || o >= out) return;
        uint choice = choices.at(c), row = choice / args.slots, slot = choice % args.slots;
        if (biased) g += gate_bias[choices.expert * out + o], u += up_bias[choices.expert * out + o];
        float v = activate(args.activation, g, u);
        if (shared && args.gated != 0) v = open(v, gates[ulong(row) * args.gate_stride]);
        dst[ulong(row) * args.dst_stride + slot * args.out + o] = v;
        if (args.quantised != 0) store_value(packed, slot * args.room + row, args.out / 32, o, v);
    });
}

// experts_down writes the down products of choices, with their biases, to dst: [rows*slots, out].
// Grid: (tiles of rows of weights, tiles of choices).
template <class W, class A, int teams>
__device__ inline void experts_down(const uchar* down, const uchar* shared_down, const uchar* h, const uchar* shared_h, const uint* list, const ExpertTile* tiles,
                                    const float* bias, float* dst, const ExpertsArgs& args) {
    wait_for_previous();
    Choices choices = listed(list, tiles);
    if (choices.count == 0) return;
    bool shared = choices.expert == args.experts;
    uint all = groups_of(args.out), blocks = shared ? args.shared_blocks : args.blocks, first = blockIdx.x * teams * A::groups;
    const uchar* w = shared ? shared_down : down + choices.expert * all * group_bytes<W>(blocks);
    auto row = [&](uint c) {
        uint choice = choices.at(c);
        return (shared ? 0 : choice % args.slots * args.room) + choice / args.slots;
    };
    float sums[A::values];
    multiply<A, W>(w, first + Team<A>().index * A::groups, all, shared ? shared_h : h, blocks, row, sums);
    bool biased = args.biased != 0 && !shared;
    finish<A, teams>(sums, choices.count, [&](uint team, uint group, uint c, uint r, float v) {
        uint o = (first + team * A::groups + group) * group_rows + r;
        if (c < choices.count && o < args.out) dst[ulong(choices.at(c)) * args.out + o] = biased ? v + bias[choices.expert * args.out + o] : v;
    });
}

struct WeighArgs {
    uint cols;
    uint used;
    uint slots;
    uint routing_stride;
    uint dst_stride;
};

// weigh_choices adds the down products of a row's choices to dst: first the weighted sum over the
// routing, then the product of the shared experts. Grid: (columns / threads, rows).
extern "C" __global__ void weigh_choices(const float* products, const float* routing, float* dst, WeighArgs args) {
    wait_for_previous();
    uint i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= args.cols) return;
    products += ulong(blockIdx.y) * args.slots * args.cols + i;
    routing += ulong(blockIdx.y) * args.routing_stride + args.used;
    float sum = 0;
    for (uint k = 0; k < args.used; k++) sum = fmaf(routing[k], products[ulong(k) * args.cols], sum);
    float* to = dst + ulong(blockIdx.y) * args.dst_stride + i;
    float result = *to + sum;
    if (args.slots > args.used) result += products[ulong(args.used) * args.cols];
    *to = result;
}

// max_used is the maximum number of experts that choose chooses: one per lane.
enum { max_used = MAX_USED };

struct RowGatedExpertsArgs {
    uint blocks;      // blocks of 32 weights in a row
    uint out;         // rows of an expert
    uint shared_out;  // of the shared experts
    uint activation;  // compute.Activation
    uint biased;      // 1 if the products of the routed experts have biases
    uint down_bytes;  // of an expert's down weights, which the next kernel reads
    uint shared_down_bytes;
    RouteArgs route;
};

// row_gated_experts is gated_experts for one row of activations, with the choice of its experts by
// the logits of row_route. Each threadgroup makes that choice; the first one also writes it to
// routing. A threadgroup takes a group of rows of gate and of up. Its warps begin to stage the
// weights as soon as the expert is known: for the shared experts, while the previous kernel still
// runs. Then the threadgroup reads its share of the expert's down weights into the L2 cache. Shared
// memory holds what the warps stage, and two floats per expert. Grid: (groups of rows, choices).
template <class W, class A>
__device__ inline void row_gated_experts(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, const float* logits,
                                         const float* bias, const float* gate_bias, const float* up_bias, const uchar* down, const uchar* shared_down,
                                         const float* shared_gates, float* routing, float* dst, const RowGatedExpertsArgs& args) {
    extern __shared__ uint4 shared[];
    __shared__ float choices[2 * max_used];
    __shared__ Parts<1> parts[2];
    uint k = blockIdx.y, used = args.route.used, out = k < used ? args.out : args.shared_out, all = groups_of(out), first = blockIdx.x;
    bool routed = k < used;
    Team<A> team;
    A strand(shared, args.blocks, team.warp);
    if (args.route.biased != 0) prefetch(bias, 4 * args.route.experts, threadIdx.x, blockDim.x);
    Packed<1> row(x, args.blocks, [](uint) { return 0u; });
    if (routed) {
        wait_for_previous();
        if (threadIdx.x < 32) choose(logits, bias, choices, (float*)((uchar*)shared + A::warps * A::bytes(args.blocks)), args.route);
        strand.copy_row(row, team.lane);
        __syncthreads();
        if (k == 0 && first == 0 && threadIdx.x < 2 * used) routing[threadIdx.x] = choices[threadIdx.x];
    }
    uint expert = routed ? uint(choices[k]) : 0, down_bytes = routed ? args.down_bytes : args.shared_down_bytes;
    if (first < all) {
        ulong at = (ulong(expert) * all + first) * group_bytes<W>(args.blocks);
        strand.copy(0, (routed ? gate : shared_gate) + at, args.blocks, team.lane);
        strand.copy(1, (routed ? up : shared_up) + at, args.blocks, team.lane);
    }
    uint share = (down_bytes / gridDim.x + 128) / 128 * 128, part = min(first * share, down_bytes);
    prefetch((routed ? down : shared_down) + ulong(expert) * down_bytes + part, min(share, down_bytes - part), threadIdx.x, blockDim.x);
    if (!routed) {
        wait_for_previous();
        strand.copy_row(row, team.lane);
    }
    if (first >= all) return;
    float sums[A::values];
    strand.multiply(args.blocks, team.lane, sums);
    UNROLL for (uint m = 0; m < 2; m++) A::put(sums, parts[m], m, team.warp, team.lane);
    __syncthreads();
    uint o = first * group_rows + threadIdx.x;
    if (threadIdx.x >= group_rows || o >= out) return;
    float g = parts[0].sum(0, threadIdx.x), u = parts[1].sum(0, threadIdx.x);
    if (args.biased != 0 && routed) g += gate_bias[expert * out + o], u += up_bias[expert * out + o];
    float v = activate(args.activation, g, u);
    dst[k * args.out + o] = !routed && args.route.gated != 0 ? open(v, *shared_gates) : v;
}

struct RowExpertsArgs {
    uint blocks;         // blocks of 32 weights in a row
    uint out;            // rows of an expert
    uint slots;          // choices, which is also the number of teams
    uint shared_blocks;  // of the shared experts
    uint probabilities;  // where two floats per expert begin in shared memory, in bytes
    uint biased;         // 1 if the products of the routed experts have biases
    RouteArgs route;
};

// row_experts_add is experts_down and weigh_choices for one row of activations, after
// row_gated_experts. A threadgroup takes a group of rows of weights. It makes the choice of
// row_gated_experts again: that kernel waited for the logits, so they are complete before this one
// waits. Each of its teams takes a choice, stages the choice's weights and quantises its
// activations. Shared memory holds the quantised activations of all choices, then the weights, and
// later the partial sums; then two floats per expert. Grid: groups of rows.
template <class W, class A>
__device__ inline void row_experts_add(const uchar* down, const uchar* shared_down, const float* h, const float* logits, const float* bias,
                                       const float* down_bias, float* dst, const RowExpertsArgs& args) {
    extern __shared__ uint4 shared[];
    __shared__ float choices[2 * max_used];
    Team<A> team;
    uint k = team.index, used = args.route.used, threads = 32 * A::warps, thread = threadIdx.x % threads, all = groups_of(args.out);
    uint blocks = k < used ? args.blocks : args.shared_blocks, bytes = group_bytes<W>(blocks);
    uchar* rows = (uchar*)shared + k * Row::bytes(args.blocks);
    uchar* weights = (uchar*)shared + used * Row::bytes(args.blocks) + (args.slots - used) * Row::bytes(args.shared_blocks) + k * group_bytes<W>(args.blocks);
    if (threadIdx.x < 32) choose(logits, bias, choices, (float*)((uchar*)shared + args.probabilities), args.route);
    __syncthreads();
    const uchar* from = k < used ? down + uint(choices[k]) * (ulong(all) * bytes) : shared_down;
    stage(weights, from + ulong(blockIdx.x) * bytes, bytes, thread, threads);
    uint o = blockIdx.x * group_rows + threadIdx.x;
    bool writes = threadIdx.x < group_rows && o < args.out;
    if (args.biased != 0 && k < used) prefetch(down_bias + uint(choices[k]) * args.out + blockIdx.x * group_rows, 4, thread, threads);
    wait_for_previous();
    Row row(rows);
    row.fill<W::parts>([&](uint i) { return read_four(h + k * 32 * (args.blocks / W::parts) + i); }, blocks / W::parts, thread, threads);
    staged();
    __syncthreads();
    float sums[A::values];
    A().multiply([&](uint) { return weights; }, row, blocks, team.warp, team.lane, sums);
    __syncthreads();
    auto parts = (Parts<A::columns>*)shared;
    A::put(sums, parts[k], 0, team.warp, team.lane);
    __syncthreads();
    if (!writes) return;
    float sum = 0;
    for (uint i = 0; i < used; i++) {
        float v = parts[i].sum(0, threadIdx.x);
        if (args.biased != 0) v += down_bias[uint(choices[i]) * args.out + o];
        sum = fmaf(choices[used + i], v, sum);
    }
    float result = dst[o] + sum;
    if (args.slots > used) result += parts[used].sum(0, threadIdx.x);
    dst[o] = result;
}
