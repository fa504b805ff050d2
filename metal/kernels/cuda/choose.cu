// Routing, and the largest logit of a row. A row is divided among several threadgroups, since a single threadgroup
// would read too slowly.
#include "activations.h"

struct RouteArgs {
    uint n;
    uint experts;
    uint rows;
    uint used;
    uint x_stride;
    uint dst_stride;
    uint sigmoid;   // 1 for sigmoid, 0 for softmax
    uint normalise;
    uint biased;
    float scale;
};

// read_part returns values i to i+3 of a row of n values. Values past the end are 0.
__device__ inline float4 read_part(const float* p, uint i, uint n) {
    if (i + 4 <= n) return read_four(p + i);
    return make_float4(i < n ? p[i] : 0.0f, i + 1 < n ? p[i + 1] : 0.0f, i + 2 < n ? p[i + 2] : 0.0f, 0.0f);
}

// logits_of computes the logits of an expert for up to four rows. A warp calls it.
__device__ inline void logits_of(const float* router, const float* x, uint rows, float* logits, const RouteArgs& args) {
    enum { together = 16 };
    uint lane = threadIdx.x % 32;
    float sums[4] = {0, 0, 0, 0};
    for (uint first = 4 * lane; first < args.n; first += 128 * together) {
        float4 w[together];
        UNROLL for (uint u = 0; u < together; u++) w[u] = read_part(router, first + 128 * u, args.n);
        UNROLL for (uint j = 0; j < 4; j++) {
            if (j >= rows) break;
            UNROLL for (uint u = 0; u < together; u++) {
                float4 v = read_part(x + ulong(j) * args.x_stride, first + 128 * u, args.n);
                sums[j] = fmaf(w[u].w, v.w, fmaf(w[u].z, v.z, fmaf(w[u].y, v.y, fmaf(w[u].x, v.x, sums[j]))));
            }
        }
    }
    UNROLL for (uint j = 0; j < 4; j++) {
        float v = warp_sum(sums[j]);
        if (lane == 0 && j < rows) logits[ulong(j) * args.experts] = v;
    }
}

// ordered returns an integer that orders floats as the floats themselves are ordered. The order of -0 and 0, and of NaN, is by their bits.
__device__ inline uint ordered(float v) {
    uint bits = __float_as_uint(v);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000;
}

// choose chooses a row's experts in the same way as route of experts.metal. A warp calls it. probabilities is shared memory with
// two floats per expert.
__device__ inline void choose(const float* logits, const float* bias, float* dst, float* probabilities, const RouteArgs& args) {
    const float infinity = __int_as_float(0x7f800000), least = -3.0e38f;
    float* scores = probabilities + args.experts;
    uint lane = threadIdx.x % 32;
    float best = -infinity, sum = 0;
    for (uint e = lane; e < args.experts; e += 32) {
        probabilities[e] = __ldcg(logits + e);
        best = fmaxf(best, probabilities[e]);
    }
    if (args.sigmoid == 0) {
        UNROLL for (uint m = 16; m > 0; m /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, m));
        for (uint e = lane; e < args.experts; e += 32) sum += expf(probabilities[e] - best);
        sum = warp_sum(sum);
    }
    for (uint e = lane; e < args.experts; e += 32) {
        float p = args.sigmoid != 0 ? 1.0f / (1.0f + expf(-probabilities[e])) : expf(probabilities[e] - best) / sum;
        float score = p + (args.biased != 0 ? bias[e] : 0.0f);
        probabilities[e] = p;
        scores[e] = score > least ? score + 0.0f : least; // NaN can be chosen, too; adding 0 turns -0 into 0
    }
    float own;  // the lane's highest score, and its expert
    uint expert;
    auto find = [&] {
        own = -infinity, expert = ~0u;
        for (uint e = lane; e < args.experts; e += 32) {
            if (scores[e] > own) own = scores[e], expert = e;
        }
    };
    find();
    __syncwarp();
    float weights = 0, choice = 0, weight = 0; // lane k has choice k and its weight
    for (uint k = 0; k < args.used; k++) {
        uint top = __reduce_max_sync(~0u, ordered(own));
        uint chosen = __reduce_min_sync(~0u, ordered(own) == top ? expert : ~0u);
        float p = probabilities[chosen];
        if (chosen % 32 == lane) {
            scores[chosen] = -infinity;
            find();
        }
        weights += p;
        if (lane == k) choice = float(chosen), weight = p;
    }
    float scale = args.normalise != 0 ? args.scale / (weights + 1e-20f) : args.scale;
    if (lane < args.used) {
        dst[lane] = choice;
        dst[args.used + lane] = weight * scale;
    }
}

// route has the same result as route of experts.metal, for routers in float32. A warp computes the logits of an expert for four
// rows. The last threadgroup to finish for these rows chooses their experts. counters has one counter per four rows. All counters
// are 0 before and after. Shared memory has eight floats per expert. Grid: (experts / 4, rows / 4), 128 threads.
extern "C" __global__ void __launch_bounds__(128) route(const float* router, const float* bias, const float* x, float* logits, uint* counters, float* dst,
                                                        RouteArgs args) {
    extern __shared__ float probabilities[];
    __shared__ bool last;
    uint warp = threadIdx.x / 32, e = blockIdx.x * 4 + warp, first = blockIdx.y * 4, rows = min(args.rows - first, 4u);
    logits += ulong(first) * args.experts;
    if (e < args.experts) prefetch(router + ulong(e) * args.n, 4 * args.n, threadIdx.x % 32, 32);
    wait_for_previous();
    if (e < args.experts) logits_of(router + ulong(e) * args.n, x + ulong(first) * args.x_stride, rows, logits + e, args);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(counters + blockIdx.y, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last || warp >= rows) return;
    __threadfence();
    choose(logits + ulong(warp) * args.experts, bias, dst + ulong(first + warp) * args.dst_stride, probabilities + 2 * warp * args.experts, args);
}

struct RowRouteArgs {
    RouteArgs route;
    uint norm_threads;
    float eps;
};

// row_route computes the RMSNorm of one row, and route of the result. Each threadgroup normalises the row x and computes the logits of
// eight experts. It reads the first columns of the router while the previous kernel still runs. The first threadgroup writes the
// normalised row to normed, and quantised to packed. Shared memory has the normalised row, and two floats per expert. Grid: experts / 8,
// 256 threads.
extern "C" __global__ void __launch_bounds__(256) row_route(const float* router, const float* bias, const float* x, const float* gain, float* normed, uchar* packed,
                                                            float* logits, uint* counters, float* dst, RowRouteArgs args) {
    enum { early = 16 };
    extern __shared__ float row[];
    __shared__ bool last;
    uint n = args.route.n, lane = threadIdx.x % 32, e = blockIdx.x * 8 + threadIdx.x / 32;
    router += ulong(min(e, args.route.experts - 1)) * n;
    float4 w[early];
    UNROLL for (uint u = 0; u < early; u++) {
        uint at = 4 * lane + 128 * u;
        w[u] = at < n ? *(const float4*)(router + at) : make_float4(0, 0, 0, 0);
    }
    NormRow<2> norm(gain, n / 32, args.norm_threads);
    if (args.route.biased != 0) prefetch(bias, 4 * args.route.experts, threadIdx.x, blockDim.x);
    wait_for_previous();
    norm.normalise(x, row, n / 32, args.eps, [&](uint u, float4 low, float4 high) {
        if (blockIdx.x > 0) return;
        Quantised v = quantise(low, high);
        if (!norm.values.has(u)) return;
        write_four(normed + norm.values.offset(u), low);
        write_four(normed + norm.values.offset(u) + 16, high);
        store(packed, 0, norm.values.block(u), n / 32, threadIdx.x % 4, v);
    });
    __syncthreads();
    float sum = 0;
    auto add = [&](float4 w, uint at) {
        float4 v = *(const float4*)(row + at);
        sum = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sum))));
    };
    UNROLL for (uint u = 0; u < early; u++) {
        if (4 * lane + 128 * u < n) add(w[u], 4 * lane + 128 * u);
    }
    for (uint at = 4 * lane + 128 * early; at < n; at += 128) add(*(const float4*)(router + at), at);
    sum = warp_sum(sum);
    if (lane == 0 && e < args.route.experts) logits[e] = sum;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(counters, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!last || threadIdx.x >= 32) return;
    __threadfence();
    choose(logits, bias, dst, row + n, args.route);
}

struct TopArgs {
    uint cols;
    uint parts;       // per row
    uint src_stride;
    uint dst_stride;
};

// TopPart has the largest value of a part of a row, the value's index, and the sum of exp(v-value). Among equal values, the lowest
// index counts. The sum is infinite if a value is not finite.
struct TopPart {
    float value;
    uint index;
    float sum;
};

__device__ inline bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }
__device__ inline bool is_finite(float v) { return (__float_as_uint(v) & 0x7f800000) != 0x7f800000; }

// best_of finds the best value of 256 threads and the value's index. All threads receive the result.
__device__ inline void best_of(float& value, uint& index) {
    __shared__ float values[8];
    __shared__ uint indices[8];
    UNROLL for (uint m = 16; m > 0; m /= 2) {
        float v = __shfl_xor_sync(~0u, value, m);
        uint i = __shfl_xor_sync(~0u, index, m);
        if (before(v, i, value, index)) value = v, index = i;
    }
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value, indices[threadIdx.x / 32] = index;
    __syncthreads();
    for (uint i = 0; i < 8; i++) {
        if (before(values[i], indices[i], value, index)) value = values[i], index = indices[i];
    }
}

// top_parts finds the largest value of each part of a row. Grid: (parts, rows); 256 threads.
extern "C" __global__ void __launch_bounds__(256) top_parts(const float* src, TopPart* parts, TopArgs args) {
    __shared__ float sums[8];
    wait_for_previous();
    const float infinity = __int_as_float(0x7f800000);
    uint each = (args.cols + args.parts - 1) / args.parts, begin = blockIdx.x * each, end = min(begin + each, args.cols);
    src += ulong(blockIdx.y) * args.src_stride;
    float value = -infinity;
    uint index = ~0u;
#pragma unroll 8
    for (uint i = begin + threadIdx.x; i < end; i += 256) {
        float v = src[i] >= -infinity ? src[i] : -infinity; // NaN counts as the smallest
        if (before(v, i, value, index)) value = v, index = i;
    }
    best_of(value, index);
    float sum = 0;
#pragma unroll 8
    for (uint i = begin + threadIdx.x; i < end; i += 256) sum += is_finite(src[i]) ? expf(src[i] - value) : infinity;
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    float total = 0;
    for (uint i = 0; i < 8; i++) total += sums[i];
    parts[blockIdx.y * args.parts + blockIdx.x] = {value, index, total};
}

// top_join writes [index | value | logarithm of the sum of all exponentials] of a row. A warp takes a row, and each lane a part of it.
extern "C" __global__ void top_join(const TopPart* parts, float* dst, TopArgs args) {
    wait_for_previous();
    const float infinity = __int_as_float(0x7f800000);
    uint lane = threadIdx.x;
    TopPart part = {-infinity, ~0u, 0};
    if (lane < args.parts) part = parts[blockIdx.x * args.parts + lane];
    float value = part.value;
    uint index = part.index;
    UNROLL for (uint m = 16; m > 0; m /= 2) {
        float v = __shfl_xor_sync(~0u, value, m);
        uint i = __shfl_xor_sync(~0u, index, m);
        if (before(v, i, value, index)) value = v, index = i;
    }
    float sum = warp_sum(part.sum > 0 ? (part.sum < infinity ? part.sum * expf(part.value - value) : infinity) : 0.0f);
    if (lane > 0) return;
    dst += ulong(blockIdx.x) * args.dst_stride;
    dst[0] = float(index);
    dst[1] = value;
    dst[2] = sum < infinity ? value + logf(sum) : infinity;
}
