// Routing, and the largest logit of a row. A row is divided among several threadgroups, since a single threadgroup
// would read too slowly.
#include "choose.h"

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
    uint n;
    uint experts;
    uint norm_threads;
    float eps;
};

// row_route computes the RMSNorm of one row, and the logits of the result. The kernels of the experts choose by these logits. Each
// threadgroup normalises the row x and computes the logits of eight experts. It reads the first columns of the router while the previous
// kernel still runs. The first threadgroup writes the normalised row to normed, and quantised to packed. Shared memory has the normalised
// row. Grid: experts / 8, 256 threads.
extern "C" __global__ void __launch_bounds__(256) row_route(const float* router, const float* x, const float* gain, float* normed, uchar* packed, float* logits,
                                                            RowRouteArgs args) {
    enum { early = 16 };
    extern __shared__ float row[];
    uint n = args.n, lane = threadIdx.x % 32, e = blockIdx.x * 8 + threadIdx.x / 32;
    router += ulong(min(e, args.experts - 1)) * n;
    float4 w[early];
    UNROLL for (uint u = 0; u < early; u++) {
        uint at = 4 * lane + 128 * u;
        w[u] = at < n ? *(const float4*)(router + at) : make_float4(0, 0, 0, 0);
    }
    NormRow<2> norm(gain, n / 32, args.norm_threads);
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
    if (lane == 0 && e < args.experts) logits[e] = sum;
}

// row_choose chooses the experts of one row by the logits of row_route. Shared memory has two floats per expert. Grid: 1, 32 threads.
extern "C" __global__ void __launch_bounds__(32) row_choose(const float* logits, const float* bias, float* dst, RouteArgs args) {
    extern __shared__ float probabilities[];
    wait_for_previous();
    choose(logits, bias, dst, probabilities, args);
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
