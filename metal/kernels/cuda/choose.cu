// Routing, and the largest logit of a row. A row is divided among several threadgroups, since a
// single threadgroup would read too slowly.
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

// route has the same result as route of experts.metal, for routers in float32. A warp computes the
// logits of an expert for four rows. The last threadgroup to finish for these rows chooses their
// experts. counters has one counter per four rows. All counters are 0 before and after. Shared
// memory has eight floats per expert. Grid: (experts / 4, rows / 4), 128 threads.
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

// row_route computes the RMSNorm of one row, and the logits of the result. The kernels of the
// experts choose by these logits. Each threadgroup normalises the row x and computes the logits of
// eight experts. It reads the first columns of the router while the previous kernel still runs. The
// first threadgroup writes the normalised row to normed, and quantised to packed. Shared memory has
// the normalised row. Grid: experts / 8, 256 threads.
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

// row_choose chooses the experts of one row by the logits of row_route. Shared memory has two
// floats per expert. Grid: 1, 32 threads.
extern "C" __global__ void __launch_bounds__(32) row_choose(const float* logits, const float* bias, float* dst, RouteArgs args) {
    extern __shared__ float probabilities[];
    wait_for_previous();
    choose(logits, bias, dst, probabilities, args);
}
