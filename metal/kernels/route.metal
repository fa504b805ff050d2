// The routing of a mixture of experts: the choice of a row's experts by their logits, the grouping
// of choices by expert, and the weighted sum of the experts' results.
#include "defs.h"
#include "experts.h"

// choose_experts writes the indices of a row's experts, best first, and then their weights. A
// simdgroup processes a row. shared has the floats that choose needs. Grid: (rows).
kernel void choose_experts(
    device const float* logits [[buffer(0)]],
    device const float* bias [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant RouteArgs& args [[buffer(3)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
    choose(logits + group.x * args.experts, bias, args, shared, lane);
    for (uint i = lane; i < 2 * args.used; i += 32) dst[group.x * args.dst_stride + i] = shared[i];
}

struct GroupArgs {
    uint rows;
    uint used;
    uint slots;
    uint experts;
    uint routing_stride;
    uint tiles;  // length of the list of tiles; some can be unused
    uint tile;   // maximum number of choices of a tile
};

// expert_of returns the expert of choice i.
inline uint expert_of(device const float* routing, constant GroupArgs& args, uint i) {
    uint k = i % args.slots;
    return k < args.used ? uint(routing[i / args.slots * args.routing_stride + k]) : args.experts;
}

// group_experts sorts a routing's choices by expert and divides them into tiles. The order of an
// expert's choices is not defined: no result depends on it. The grid is one threadgroup. shared has
// two integers for each expert, including the shared ones: how many choices it has, and where the
// next one is written.
[[max_total_threads_per_threadgroup(GROUP_THREADS)]] kernel void group_experts(
    device const float* routing [[buffer(0)]],
    device uint* choices [[buffer(1)]],
    device ExpertTile* tiles [[buffer(2)]],
    constant GroupArgs& args [[buffer(3)]],
    threadgroup uint* shared [[threadgroup(0)]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint all = args.rows * args.slots, experts = args.experts + 1, threads = simdgroups * 32;
    threadgroup uint* next = shared + experts;
    threadgroup atomic_uint* counted = (threadgroup atomic_uint*)shared;
    threadgroup atomic_uint* written = (threadgroup atomic_uint*)next;
    for (uint e = tid; e < experts; e += threads) shared[e] = 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = tid; i < all; i += threads) atomic_fetch_add_explicit(counted + expert_of(routing, args, i), 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = simdgroup; e < experts; e += simdgroups) {
        uint at = 0, tile = 0, count = shared[e];
        for (uint i = lane; i < e; i += 32) {
            at += shared[i];
            tile += (shared[i] + args.tile - 1) / args.tile;
        }
        at = simd_sum(at);
        tile = simd_sum(tile);
        for (uint i = lane; args.tile * i < count; i += 32) {
            tiles[tile + i].expert = e;
            tiles[tile + i].first = at + args.tile * i;
            tiles[tile + i].count = min(count - args.tile * i, args.tile);
        }
        if (lane == 0) next[e] = at;
        if (e == experts - 1) {
            for (uint i = tile + (count + args.tile - 1) / args.tile + lane; i < args.tiles; i += 32) tiles[i].count = 0;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = tid; i < all; i += threads) {
        uint at = atomic_fetch_add_explicit(written + expert_of(routing, args, i), 1u, memory_order_relaxed);
        choices[at] = i;
    }
}

struct WeighArgs {
    uint cols;
    uint used;
    uint slots;
    uint routing_stride;
    uint dst_stride;
};

// weigh_experts adds the weighted down products of a row's choices to dst, and then the products of
// the shared experts, as experts_add does. Grid: (columns / 64, rows).
kernel void weigh_experts(
    device const float* products [[buffer(0)]],
    device const float* routing [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant WeighArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i >= args.cols) return;
    products += ulong(group.y) * args.slots * args.cols + i;
    routing += group.y * args.routing_stride + args.used;
    dst += group.y * args.dst_stride + i;
    constexpr uint together = 4;  // products that are read before the first use
    float before = *dst, common = args.slots > args.used ? products[args.used * args.cols] : 0.0f, sum = 0;
    for (uint first = 0; first < args.used; first += together) {
        float v[together];
        UNROLL for (uint i = 0; i < together; i++) v[i] = first + i < args.used ? products[(first + i) * args.cols] : 0.0f;
        UNROLL for (uint i = 0; i < together; i++) {
            if (first + i < args.used) sum = fma(routing[first + i], v[i], sum);
        }
    }
    sum += before;
    if (args.slots > args.used) sum += common;
    *dst = sum;
}
