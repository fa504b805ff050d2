// Attention over KV pages for rows of any sequences. A simdgroup processes a few query heads of a
// row, and each lane one key at a time. If each split has its own threadgroup, attention_join joins
// the splits. Otherwise, attention itself does.
#include "attention.h"

// attention takes Q query heads of one key head at a time, so that keys and values are read once
// for all of them. Values have up to 32·V dimensions. Grid: (splits or 1, heads / Q / simdgroups,
// rows).
template <typename P, uint V, uint Q>
kernel void attention(
    device const float* q [[buffer(0)]],
    device const uchar* keys [[buffer(1)]],
    device const uchar* values [[buffer(2)]],
    device const Slot* slots [[buffer(3)]],
    device const int* tables [[buffer(4)]],
    device float* parts [[buffer(5)]],
    device float* dst [[buffer(6)]],
    device const float* sinks [[buffer(7)]],
    constant AttentionArgs& args [[buffer(8)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint head = (group.y * simdgroups + simdgroup) * Q;
    device const Slot& at = slots[group.z];
    uint n = at.position + 1, low = first_of(args, n);
    if (head >= args.heads || group.x * split_keys >= n || (args.splits > 0 && (group.x + 1) * split_keys <= low)) return;
    uint kv_head = head / (args.heads / args.kv_heads);
    uint key_bytes = P::row_bytes(args.key_dim);
    uint value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    device const int* pages = tables + at.pages;

    // The simdgroup's memory: its queries, the weights of a block of keys, and the page rows of
    // that block.
    uint padded = (args.key_dim + 3) / 4 * 4;
    threadgroup float* query = shared + simdgroup * (Q * (padded + 32) + 32);
    threadgroup float* weights = query + Q * padded;
    threadgroup uint* rows = (threadgroup uint*)(weights + Q * 32);
    q += group.z * args.q_stride + head * args.key_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        for (uint d = lane; d < args.key_dim; d += 32) query[h * padded + d] = q[h * args.key_dim + d];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);

    float m[Q], l[Q], total[Q][V];
    UNROLL for (uint h = 0; h < Q; h++) {
        m[h] = -INFINITY;
        l[h] = 0;
        UNROLL for (uint i = 0; i < V; i++) total[h][i] = 0;
    }
    uint begin = args.splits > 0 ? group.x * split_keys : low / split_keys * split_keys, end = args.splits > 0 ? min(begin + split_keys, n) : n;
    for (uint split = begin; split < end; split += split_keys) {
        float split_m[Q], split_l[Q], sums[Q][V];
        UNROLL for (uint h = 0; h < Q; h++) {
            split_m[h] = -INFINITY;
            split_l[h] = 0;
            UNROLL for (uint i = 0; i < V; i++) sums[h][i] = 0;
        }
        // A block can begin before the first position of the window. Lanes for earlier positions
        // read the key of the first position, with weight 0.
        for (uint first = max(split, low / 32 * 32); first < min(split + split_keys, n); first += 32) {
            uint count = min(n - first, 32u), p = max(first + lane, low);
            bool seen = lane < count && first + lane >= low;
            float scores[Q];
            UNROLL for (uint h = 0; h < Q; h++) scores[h] = seen ? 0.0f : -INFINITY;
            if (lane < count) {
                uint row = page_row(uint(pages[p / args.page_size]) * args.page_size + p % args.page_size, kv_head, args.kv_heads, args.page_size);
                rows[lane] = row;
            }
            if (seen) {
                device const uchar* key = keys + ulong(rows[lane]) * key_bytes;
                uint d = 0;
                for (; d + 16 <= args.key_dim; d += 16) {
                    // Issue all reads before the first use.
                    float4 k0 = P::four(key, d), k1 = P::four(key, d + 4), k2 = P::four(key, d + 8), k3 = P::four(key, d + 12);
                    UNROLL for (uint h = 0; h < Q; h++) {
                        threadgroup const float4* x = (threadgroup const float4*)(query + h * padded + d);
                        float4 x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
                        scores[h] = add_four(k3, x3, add_four(k2, x2, add_four(k1, x1, add_four(k0, x0, scores[h]))));
                    }
                }
                for (; d + 4 <= args.key_dim; d += 4) {
                    float4 k = P::four(key, d);
                    UNROLL for (uint h = 0; h < Q; h++) scores[h] = add_four(k, *(threadgroup const float4*)(query + h * padded + d), scores[h]);
                }
                for (; d < args.key_dim; d++) {
                    float k = P::at(key, d);
                    UNROLL for (uint h = 0; h < Q; h++) scores[h] = fma(k, query[h * padded + d], scores[h]);
                }
                UNROLL for (uint h = 0; h < Q; h++) scores[h] *= args.scale;
            }
            float by[Q], added[Q];
            UNROLL for (uint h = 0; h < Q; h++) {
                float larger = max(split_m[h], simd_max(scores[h]));
                by[h] = exp(split_m[h] - larger);
                split_m[h] = larger;
                added[h] = exp(scores[h] - larger);
                weights[h * 32 + lane] = added[h];
            }
            tree_sums<Q>(added);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            UNROLL for (uint h = 0; h < Q; h++) {
                split_l[h] = fma(split_l[h], by[h], added[h]);
                UNROLL for (uint i = 0; i < V; i++) sums[h][i] *= by[h];
            }
            // Issue the reads of several keys' values before the first use. Reads past the last key
            // read that key again and are not used.
            constexpr uint together = 32 / V;
            for (uint j = 0; j < count; j += together) {
                device const uchar* row[together];
                UNROLL for (uint t = 0; t < together; t++) row[t] = values + ulong(rows[min(j + t, count - 1)]) * value_bytes;
                UNROLL for (uint i = 0; i < V; i++) {
                    uint d = lane + 32 * i;
                    float v[together];
                    if (d < args.value_dim) {
                        UNROLL for (uint t = 0; t < together; t++) v[t] = P::at(row[t], d);
                        UNROLL for (uint t = 0; t < together; t++) {
                            UNROLL for (uint h = 0; h < Q; h++) {
                                if (j + t < count) sums[h][i] = fma(weights[h * 32 + j + t], v[t], sums[h][i]);
                            }
                        }
                    }
                }
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (args.splits > 0) {
            UNROLL for (uint h = 0; h < Q; h++) {
                device float* part = parts + ((ulong(group.z) * args.heads + head + h) * args.splits + group.x) * (args.value_dim + 2);
                if (lane == 0) {
                    part[0] = split_m[h];
                    part[1] = split_l[h];
                }
                UNROLL for (uint i = 0; i < V; i++) {
                    uint d = lane + 32 * i;
                    if (d < args.value_dim) part[2 + d] = sums[h][i];
                }
            }
            return;
        }
        UNROLL for (uint h = 0; h < Q; h++) {
            float2 by = join(m[h], l[h], split_m[h], split_l[h]);
            UNROLL for (uint i = 0; i < V; i++) total[h][i] = fma(total[h][i], by.x, sums[h][i] * by.y);
        }
    }
    dst += group.z * args.dst_stride + head * args.value_dim;
    UNROLL for (uint h = 0; h < Q; h++) {
        float by = sink_factor(args, sinks, head + h, m[h], l[h]);
        UNROLL for (uint i = 0; i < V; i++) {
            uint d = lane + 32 * i;
            if (d < args.value_dim) dst[h * args.value_dim + d] = total[h][i] * by / l[h];
        }
    }
}

// attention_join joins the splits of a row and head. Grid: (values / 32, heads, rows).
kernel void attention_join(
    device const float* parts [[buffer(0)]],
    device const Slot* slots [[buffer(1)]],
    device float* dst [[buffer(2)]],
    device const float* sinks [[buffer(3)]],
    constant AttentionArgs& args [[buffer(4)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
    uint d = group.x * 32 + lane;
    if (d >= args.value_dim) return;
    parts += (ulong(group.z) * args.heads + group.y) * args.splits * (args.value_dim + 2);
    float m = -INFINITY, l = 0, total = 0;
    uint begin = first_of(args, slots[group.z].position + 1) / split_keys;
    parts += begin * (args.value_dim + 2);
    for (uint split = begin; split * split_keys <= slots[group.z].position; split++) {
        float2 by = join(m, l, parts[0], parts[1]);
        total = fma(total, by.x, parts[2 + d] * by.y);
        parts += args.value_dim + 2;
    }
    float by = sink_factor(args, sinks, group.y, m, l);
    dst[group.z * args.dst_stride + group.y * args.value_dim + d] = total * by / l;
}
