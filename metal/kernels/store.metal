// Writing of keys and values to the KV pages, with the operations before it: biases, norms and
// rotations.
#include "norm.h"
#include "pages.h"
#include "rope.h"

struct RopeStoreArgs {
    uint stride;
    uint heads;
    uint kv_heads;
    uint key_dim;
    uint value_dim;
    uint dims;  // rotated values per head; 0 if nothing is rotated
    uint page_size;
    uint halves;  // 1 if pairs are values of the two halves of a head
    uint biased;  // 1 if there is a bias
    uint normed;  // 1 if heads are normalised
    float eps;
    uint values_normed;     // 1 if the heads of the values are normalised
    uint values_from_keys;  // 1 if the values are the keys before their norm
};

// head_scale returns the factor with which a simdgroup normalises a head.
inline float head_scale(device const float* x, uint dims, float eps, uint lane) {
    float sum = 0;
    for (uint i = lane; i < dims; i += 32) sum = fma(x[i], x[i], sum);
    return rsqrt(tree_sum(sum) / float(dims) + eps);
}

// add_bias adds a bias to the values of a head.
inline void add_bias(device float* x, device const float* bias, uint dims, uint lane) {
    for (uint i = lane; i < dims; i += 32) x[i] += bias[i];
}

// rope_store adds the bias to a row [queries | keys | values], normalises and rotates the heads of
// queries and keys, all in place, and stores keys and values. A simdgroup processes a head of the
// queries, or a head of the keys and that of the values. Grid: (heads / simdgroups, rows).
template <typename P>
kernel void rope_store(
    device float* qkv [[buffer(0)]],
    device const float* table [[buffer(1)]],
    device const Slot* slots [[buffer(2)]],
    device uchar* keys [[buffer(3)]],
    device uchar* values [[buffer(4)]],
    device const float* bias [[buffer(5)]],
    device const float* q_gain [[buffer(6)]],
    device const float* k_gain [[buffer(7)]],
    constant RopeStoreArgs& args [[buffer(8)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint head = group.x * simdgroups + simdgroup, first_value = (args.heads + args.kv_heads) * args.key_dim;
    if (head >= args.heads + args.kv_heads) return;
    bool query = head < args.heads;
    uint kv_head = query ? 0 : head - args.heads;
    qkv += group.y * args.stride;
    device const Slot& at = slots[group.y];
    device float* x = qkv + head * args.key_dim;
    device float* v = qkv + first_value + kv_head * args.value_dim;
    if (args.biased != 0) {
        add_bias(x, bias + head * args.key_dim, args.key_dim, lane);
        if (!query) add_bias(v, bias + first_value + kv_head * args.value_dim, args.value_dim, lane);
        simdgroup_barrier(mem_flags::mem_device);
    }
    if (!query && (args.values_normed | args.values_from_keys) != 0) {
        device const float* from = args.values_from_keys != 0 ? x : v;
        float scale = args.values_normed != 0 ? head_scale(from, args.value_dim, args.eps, lane) : 1.0f;
        simdgroup_barrier(mem_flags::mem_device);
        for (uint i = lane; i < args.value_dim; i += 32) v[i] = from[i] * scale;
        simdgroup_barrier(mem_flags::mem_device);
    }
    if (args.normed != 0) {
        float scale = head_scale(x, args.key_dim, args.eps, lane);
        device const float* gain = query ? q_gain : k_gain;
        for (uint i = lane; i < args.key_dim; i += 32) x[i] = x[i] * scale * gain[i];
        simdgroup_barrier(mem_flags::mem_device);
    }
    rotate(x, x, table + at.position * args.dims, args.dims / 2, args.halves != 0, lane, 32);
    if (query) return;
    simdgroup_barrier(mem_flags::mem_device);
    ulong row = page_row(at.slot, kv_head, args.kv_heads, args.page_size);
    P::store(keys + row * P::row_bytes(args.key_dim), x, args.key_dim, lane);
    P::store(values + row * P::row_bytes(args.value_dim), v, args.value_dim, lane);
}

struct LatentsArgs {
    uint stride;
    uint dst_stride;
    uint q;       // number of values of the compressed query; 0 if there is none
    uint latent;  // number of values of the latent
    uint dims;    // number of values of the key, which are rotated
    uint page_size;
    float eps;
};

// latents processes a row [query | latent | key]: it writes the normalised query to dst, normalises
// the latent and rotates the key in place, and stores latent and key. A threadgroup processes the
// query of a row, another one the rest. Grid: (rows, 1 or, with a query, 2).
template <typename P>
kernel void latents(
    device float* a [[buffer(0)]],
    device const float* q_gain [[buffer(1)]],
    device const float* kv_gain [[buffer(2)]],
    device const float* table [[buffer(3)]],
    device const Slot* slots [[buffer(4)]],
    device uchar* keys [[buffer(5)]],
    device float* dst [[buffer(6)]],
    constant LatentsArgs& args [[buffer(7)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint threads = simdgroups * 32;
    device const Slot& at = slots[group.x];
    device float* q = a + group.x * args.stride;
    device float* latent = q + args.q;
    device float* key = latent + args.latent;
    if (args.q > 0 && group.y == 0) {
        norm_row(q, q_gain, dst + group.x * args.dst_stride, args.q, args.eps, false, shared, tid, lane, simdgroup, simdgroups);
        return;
    }
    rotate(key, key, table + at.position * args.dims, args.dims / 2, false, tid, threads);
    norm_row(latent, kv_gain, latent, args.latent, args.eps, false, shared, tid, lane, simdgroup, simdgroups);
    threadgroup_barrier(mem_flags::mem_device);
    uint cols = args.latent + args.dims;
    if (simdgroup == 0) P::store(keys + ulong(page_row(at.slot, 0, 1, args.page_size)) * P::row_bytes(cols), latent, cols, lane);
}

struct ShortConvArgs {
    uint cols;    // values per row: whole heads of the keys and, after all of these, of the values
    uint stride;  // of c
    uint b_stride;
    uint x_stride;
    uint heads;  // heads of the keys
    uint key_dim;
    uint value_dim;
    uint page_size;
    uint taps;  // rows of the convolution
};

// store_gated is the first part of a convolution: it multiplies rows x by rows b in place, and
// stores them like keys and values. A threadgroup processes a row, and each simdgroup some of its
// heads.
template <typename P>
kernel void store_gated(
    device const float* b [[buffer(0)]],
    device float* x [[buffer(1)]],
    device const Slot* slots [[buffer(2)]],
    device uchar* keys [[buffer(3)]],
    device uchar* values [[buffer(4)]],
    constant ShortConvArgs& args [[buffer(5)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    b += group.x * args.b_stride;
    x += group.x * args.x_stride;
    uint slot = slots[group.x].slot, key_cols = args.heads * args.key_dim;
    for (uint i = tid; i < args.cols; i += simdgroups * 32) x[i] *= b[i];
    threadgroup_barrier(mem_flags::mem_device);
    for (uint head = simdgroup; head < 2 * args.heads; head += simdgroups) {
        bool key = head < args.heads;
        uint at = key ? head * args.key_dim : key_cols + (head - args.heads) * args.value_dim;
        if (at >= args.cols) continue;
        uint dims = key ? args.key_dim : args.value_dim;
        ulong row = page_row(slot, head % args.heads, args.heads, args.page_size);
        P::store((key ? keys : values) + row * P::row_bytes(dims), x + at, dims, lane);
    }
}

// short_conv is the second part: it multiplies rows c by the sums over the stored rows of earlier
// positions and the row x itself. A thread processes a column. Grid: (columns / 64, rows).
template <typename P>
kernel void short_conv(
    device float* c [[buffer(0)]],
    device const float* x [[buffer(1)]],
    device const float* w [[buffer(2)]],
    device const Slot* slots [[buffer(3)]],
    device const uchar* keys [[buffer(4)]],
    device const uchar* values [[buffer(5)]],
    device const int* tables [[buffer(6)]],
    constant ShortConvArgs& args [[buffer(7)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i >= args.cols) return;
    device const Slot& at = slots[group.y];
    device const int* pages = tables + at.pages;
    uint key_cols = args.heads * args.key_dim;
    bool key = i < key_cols;
    uint dims = key ? args.key_dim : args.value_dim, column = key ? i : i - key_cols;
    device const uchar* layer = key ? keys : values;
    w += i * args.taps;
    float sum = 0;
    for (uint j = 0; j + 1 < args.taps; j++) {
        uint back = args.taps - 1 - j;
        if (at.position < back) continue;
        uint p = at.position - back;
        uint slot = uint(pages[p / args.page_size]) * args.page_size + p % args.page_size;
        ulong row = page_row(slot, column / dims, args.heads, args.page_size);
        sum = fma(w[j], P::at(layer + row * P::row_bytes(dims), column % dims), sum);
    }
    c[group.y * args.stride + i] *= fma(w[args.taps - 1], x[group.y * args.x_stride + i], sum);
}

#define STORES(type, name) \
    INSTANTIATE("store_gated_" name, store_gated, type) \
    INSTANTIATE("short_conv_" name, short_conv, type) \
    INSTANTIATE("rope_store_" name, rope_store, type) \
    INSTANTIATE("latents_" name, latents, type)
EACH_PAGE_TYPE(STORES)
