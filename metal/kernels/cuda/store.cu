// Writing of keys and values to pages of float16, with the operations before it: biases, norms and
// rotations.
#include "base.h"

struct RopeStoreArgs {
    uint stride;
    uint heads;
    uint kv_heads;
    uint key_dim;
    uint value_dim;
    uint dims;  // rotated values per head; 0 if nothing is rotated
    uint page_size;
    uint halves;  // 1 if pairs are values of the two halves of the rotated values, otherwise they are neighbours
    uint biased;  // 1 if there is a bias
    uint normed;  // 1 if heads are normalised
    float eps;
    uint values_normed;     // 1 if the heads of the values are normalised
    uint values_from_keys;  // 1 if the values are the keys before their norm
};

// Head has the values of a head: lane i of a warp has values i, i+32 and so on, N at most. dims is
// a multiple of 32.
template <uint N>
struct Head {
    float v[N];
    uint lane, dims;

    __device__ Head(uint dims) : lane(threadIdx.x % 32), dims(dims) {}

    __device__ bool has(uint j) const { return 32 * j < dims; }
    __device__ void read(const float* p) {
        UNROLL for (uint j = 0; j < N; j++) v[j] = has(j) ? p[lane + 32 * j] : 0.0f;
    }
    __device__ void add(const float* p) {
        UNROLL for (uint j = 0; j < N; j++) {
            if (has(j)) v[j] += p[lane + 32 * j];
        }
    }
    // scale returns 1/sqrt(mean(v²)+eps) of the first n values.
    __device__ float scale(uint n, float eps) const {
        float sum = 0;
        UNROLL for (uint j = 0; j < N; j++) {
            if (32 * j < n) sum = fmaf(v[j], v[j], sum);
        }
        return 1.0f / sqrtf(warp_sum(sum) / float(n) + eps);
    }
    __device__ void write(float* p) const {
        UNROLL for (uint j = 0; j < N; j++) {
            if (has(j)) p[lane + 32 * j] = v[j];
        }
    }
    __device__ void store(uchar* row) const {
        UNROLL for (uint j = 0; j < N; j++) {
            if (has(j)) *(ushort*)(row + 2 * (lane + 32 * j)) = two_halves(v[j], 0);
        }
    }
};

// rope_store adds the bias to a row [queries | keys | values], normalises and rotates the heads of
// queries and keys, all in place, and stores keys and values. A warp takes a head of the queries,
// or a head of the keys and that of the values. A head has up to 32·N values, a multiple of 32. If
// pairs are of two halves, these have 32, 64, 128 or 256 values. Grid: (heads / warps, rows).
template <uint N>
__device__ inline void rope_store(float* qkv, const float* table, const Slot* slots, uchar* keys, uchar* values, const float* bias, const float* q_gain,
                                  const float* k_gain, const RopeStoreArgs& args) {
    uint lane = threadIdx.x % 32, head = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, heads = args.heads + args.kv_heads;
    if (head >= heads) return;
    bool query = head < args.heads;
    uint kv_head = query ? 0 : head - args.heads, at_values = heads * args.key_dim + kv_head * args.value_dim, half = args.dims / 2, blocks = half / 32;
    Slot at = slots[blockIdx.y];
    Head<N> x(args.key_dim), v(args.value_dim), gain(args.key_dim);
    if (args.normed != 0) gain.read(query ? q_gain : k_gain);
    float2 angles[N]; // the cosine and the sine of the pair of each value
    UNROLL for (uint j = 0; j < N; j++) {
        uint i = lane + 32 * j, pair = args.halves == 0 ? i / 2 : i < half ? i : i - half;
        angles[j] = i < args.dims ? *(const float2*)(table + ulong(at.position) * args.dims + 2 * pair) : make_float2(0, 0);
    }
    wait_for_previous();
    float* row = qkv + ulong(blockIdx.y) * args.stride;
    x.read(row + head * args.key_dim);
    if (!query) v.read(row + at_values);
    if (args.biased != 0) {
        x.add(bias + head * args.key_dim);
        if (!query) v.add(bias + at_values);
    }
    if (!query && (args.values_normed | args.values_from_keys) != 0) {
        if (args.values_from_keys != 0) {
            UNROLL for (uint j = 0; j < N; j++) v.v[j] = x.v[j];
        }
        if (args.values_normed != 0) {
            float scale = v.scale(args.value_dim, args.eps);
            UNROLL for (uint j = 0; j < N; j++) v.v[j] = v.v[j] * scale;
        }
    }
    if (args.normed != 0) {
        float scale = x.scale(args.key_dim, args.eps);
        UNROLL for (uint j = 0; j < N; j++) x.v[j] = x.v[j] * scale * gain.v[j];
    }
    if (args.dims > 0) {
        float other[N]; // the other value of each pair
        UNROLL for (uint j = 0; j < N; j++) {
            auto across = [&](uint by) { return (j ^ by) < N ? x.v[(j ^ by) % N] : 0.0f; };
            if (args.halves == 0) other[j] = __shfl_xor_sync(~0u, x.v[j], 1);
            else other[j] = blocks == 1 ? across(1) : blocks == 2 ? across(2) : blocks == 4 ? across(4) : across(8);
        }
        UNROLL for (uint j = 0; j < N; j++) {
            uint i = lane + 32 * j;
            bool first = args.halves == 0 ? lane % 2 == 0 : i < half;
            float a = first ? x.v[j] : other[j], b = first ? other[j] : x.v[j], c = angles[j].x, s = angles[j].y;
            if (i < args.dims) x.v[j] = first ? fmaf(a, c, -(b * s)) : fmaf(a, s, b * c);
        }
    }
    x.write(row + head * args.key_dim);
    if (query) return;
    if ((args.biased | args.values_normed | args.values_from_keys) != 0) v.write(row + at_values);
    ulong to = (ulong(at.slot / args.page_size) * args.kv_heads + kv_head) * args.page_size + at.slot % args.page_size;
    x.store(keys + to * 2 * args.key_dim);
    v.store(values + to * 2 * args.value_dim);
}

#define ROPE_STORE(name, N) \
    extern "C" __global__ void __launch_bounds__(128) name(float* qkv, const float* table, const Slot* slots, uchar* keys, uchar* values, const float* bias, \
                                                           const float* q_gain, const float* k_gain, RopeStoreArgs args) { \
        rope_store<N>(qkv, table, slots, keys, values, bias, q_gain, k_gain, args); \
    }
ROPE_STORE(rope_store_128, 4)
ROPE_STORE(rope_store_256, 8)
ROPE_STORE(rope_store_512, 16)
