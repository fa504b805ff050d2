// Routing. Every kernel sums a logit in the same order: lane i of a warp adds the products of
// columns 4i to 4i+3 of every 128, and then the lanes are added as in warp_sum. If shared experts
// have a gate, its logit is computed like that of one more expert. It has weights and a result of
// its own.
#include "choose.h"

// read_part returns values i to i+3 of a row of n values. Values past the end are 0.
__device__ inline float4 read_part(const float* p, uint i, uint n) {
    if (i + 4 <= n) return read_four(p + i);
    return make_float4(i < n ? p[i] : 0.0f, i + 1 < n ? p[i + 1] : 0.0f, i + 2 < n ? p[i + 2] : 0.0f, 0.0f);
}

// sum_lanes is warp_sum for N values. Lane i receives the sums of values i*N/32 to (i+1)*N/32-1, or
// of value i*N/32 if N is less than 32. M lanes are left to be added.
template <int N, int M = 16>
__device__ inline void sum_lanes(float* v) {
    if constexpr (M > 0) {
        enum { half = N / 2 };
        bool upper = (threadIdx.x & M) != 0;
        if constexpr (half == 0) v[0] += __shfl_xor_sync(~0u, v[0], M);
        UNROLL for (int i = 0; i < half; i++) {
            float own = upper ? v[i + half] : v[i], other = upper ? v[i] : v[i + half];
            v[i] = own + __shfl_xor_sync(~0u, other, M);
        }
        sum_lanes<half, M / 2>(v);
    }
}

// weights_of returns the row of the router for an expert, or that of the gate for the number after
// the last one.
__device__ inline const float* weights_of(uint expert, const float* router, const float* gate, uint n, uint experts) {
    return expert == experts ? gate : router + ulong(min(expert, experts - 1)) * n;
}

// Factors are four columns of E rows of the router and of R rows of activations.
template <int R, int E>
struct Factors {
    float4 w[E], x[R];

    template <class Read>
    __device__ void read(const float* const (&router)[E], const float* const (&rows)[R], uint at, Read read) {
        UNROLL for (int e = 0; e < E; e++) w[e] = read(router[e], at);
        UNROLL for (int r = 0; r < R; r++) x[r] = read(rows[r], at);
    }
    __device__ void add_to(float (&sums)[R * E]) const {
        UNROLL for (int r = 0; r < R; r++) {
            UNROLL for (int e = 0; e < E; e++) {
                float& sum = sums[r * E + e];
                sum = fmaf(w[e].w, x[r].w, fmaf(w[e].z, x[r].z, fmaf(w[e].y, x[r].y, fmaf(w[e].x, x[r].x, sum))));
            }
        }
    }
};

// route_logits computes the logits of E experts from the given one on, for R rows. A warp calls it.
// With ahead, it reads the next columns before it uses those before.
template <int R, int E, bool ahead>
__device__ inline void route_logits(const float* router, const float* gate, const float* x, float* logits, float* gates, uint expert, uint row, const RouteArgs& args) {
    uint lane = threadIdx.x % 32, n = args.n, count = args.experts + args.gated;
    const float* w[E];
    UNROLL for (int e = 0; e < E; e++) w[e] = weights_of(min(expert + e, count - 1), router, gate, n, args.experts);
    UNROLL for (int e = 0; e < E; e++) prefetch(w[e], 4 * n, lane, 32);
    wait_for_previous();
    const float* rows[R];
    UNROLL for (int r = 0; r < R; r++) rows[r] = x + ulong(min(row + r, args.rows - 1)) * args.x_stride;
    float sums[R * E];
    UNROLL for (int i = 0; i < R * E; i++) sums[i] = 0;
    auto add = [&](auto read) {
        uint rounds = (n + 127) / 128;
        if constexpr (ahead) {
            Factors<R, E> factors[2];
            factors[0].read(w, rows, 4 * lane, read);
            for (uint i = 0; i < rounds; i += 2) {
                factors[1].read(w, rows, 4 * lane + 128 * min(i + 1, rounds - 1), read);
                factors[0].add_to(sums);
                if (i + 1 == rounds) break;
                factors[0].read(w, rows, 4 * lane + 128 * min(i + 2, rounds - 1), read);
                factors[1].add_to(sums);
            }
        } else {
#pragma unroll 4
            for (uint i = 0; i < rounds; i++) {
                Factors<R, E> factors;
                factors.read(w, rows, 4 * lane + 128 * i, read);
                factors.add_to(sums);
            }
        }
    };
    if (n % 128 == 0 && args.x_stride % 4 == 0 && ulong(x) % 16 == 0) add([](const float* p, uint i) { return *(const float4*)(p + i); });
    else add([&](const float* p, uint i) { return read_part(p, i, n); });
    sum_lanes<R * E>(sums);
    enum { each = R * E / 32, all = R * E };
    UNROLL for (int i = 0; i < (each > 0 ? each : 1); i++) {
        uint value = each > 0 ? lane * each + i : lane * all / 32, r = value / E, e = value % E;
        bool writes = each > 0 || lane % (32 / (each > 0 ? 32 : all)) == 0;
        if (!writes || row + r >= args.rows || expert + e >= count) continue;
        if (expert + e == args.experts) gates[ulong(row + r) * args.gate_stride] = sums[i];
        else logits[ulong(row + r) * args.logits_stride + expert + e] = sums[i];
    }
}

// route_one takes a row and an expert per warp, and route_few four of each. Grid: ((experts +
// gated) / experts of a threadgroup, rows / rows of a threadgroup).
extern "C" __global__ void __launch_bounds__(32) route_one(const float* router, const float* gate, const float* x, float* logits, float* gates, RouteArgs args) {
    route_logits<1, 1, false>(router, gate, x, logits, gates, blockIdx.x, blockIdx.y, args);
}
extern "C" __global__ void __launch_bounds__(64) route_few(const float* router, const float* gate, const float* x, float* logits, float* gates, RouteArgs args) {
    uint expert = (blockIdx.x * 2 + threadIdx.x / 32) * 4;
    if (expert < args.experts + args.gated) route_logits<4, 4, false>(router, gate, x, logits, gates, expert, 4 * blockIdx.y, args);
}

// route_many takes 16 rows and 32 experts, eight of each per warp. The first threadgroup of rows
// then computes their gates. Grid: (experts / 32, rows / 16).
extern "C" __global__ void __launch_bounds__(256) route_many(const float* router, const float* gate, const float* x, float* logits, float* gates, RouteArgs args) {
    uint warp = threadIdx.x / 32, expert = 32 * blockIdx.x + warp % 4 * 8, row = 16 * blockIdx.y;
    if (expert < args.experts) route_logits<8, 8, true>(router, gate, x, logits, gates, expert, row + warp / 4 * 8, args);
    if (blockIdx.x == 0 && args.gated != 0) route_logits<2, 1, false>(router, gate, x, logits, gates, args.experts, row + 2 * warp, args);
}

// choose_rows chooses the experts of rows by their logits. A warp takes a row. Shared memory has
// eight floats per expert. Grid: rows / 4, 128 threads.
extern "C" __global__ void __launch_bounds__(128) choose_rows(const float* logits, const float* bias, float* dst, RouteArgs args) {
    extern __shared__ float probabilities[];
    uint warp = threadIdx.x / 32, row = blockIdx.x * 4 + warp;
    wait_for_previous();
    if (row >= args.rows) return;
    choose(logits + ulong(row) * args.experts, bias, dst + ulong(row) * args.dst_stride, probabilities + 2 * warp * args.experts, args);
}

struct NormRouteArgs {
    uint n;
    uint experts;
    uint rows;
    uint norm_threads;
    uint x_stride;
    uint normed_stride;
    float eps;
    uint quantised;  // 1 if the normalised rows are also written as activations
    uint gated;      // as in RouteArgs
    uint gate_stride;
};

// norm_route is row_route for some rows, of which a threadgroup takes R. Shared memory has their
// normalised values. Grid: ((experts + gated) / 8, rows / R), 256 threads.
template <int R>
__device__ inline void norm_route(const float* router, const float* gate, const float* x, const float* gain, float* normed, uchar* packed, float* logits, float* gates,
                                  const NormRouteArgs& args) {
    enum { early = 16 };
    extern __shared__ float shared[];
    __shared__ float sums[R][8];
    uint n = args.n, lane = threadIdx.x % 32, warp = threadIdx.x / 32, e = blockIdx.x * 8 + warp, first = blockIdx.y * R;
    router = weights_of(min(e, args.experts + args.gated - 1), router, gate, n, args.experts);
    float4 w[early];
    UNROLL for (uint u = 0; u < early; u++) {
        uint at = 4 * lane + 128 * u;
        w[u] = at < n ? *(const float4*)(router + at) : make_float4(0, 0, 0, 0);
    }
    if (n > 128 * early) prefetch(router + 128 * early, 4 * (n - 128 * early), lane, 32);
    bool takes = threadIdx.x < args.norm_threads;
    Normed<2> norm(threadIdx.x, args.norm_threads, n);
    if (takes) norm.read_gains(gain);
    wait_for_previous();
    UNROLL for (uint r = 0; r < R; r++) {
        float sum = takes ? warp_sum(norm.read(x + ulong(min(first + r, args.rows - 1)) * args.x_stride)) : 0.0f;
        if (lane == 0) sums[r][warp] = sum;
    }
    __syncthreads();
    UNROLL for (uint r = 0; takes && r < R; r++) {
        uint row = min(first + r, args.rows - 1);
        norm.read(x + ulong(row) * args.x_stride);
        norm.write(shared + r * n, rms_scale(sums[r], args.norm_threads / 32, n, args.eps), [&](uint u, float4 low, float4 high) {
            if (blockIdx.x > 0 || first + r > row || !norm.has(u)) return;
            float* to = normed + ulong(row) * args.normed_stride + norm.offset(u);
            write_four(to, low);
            write_four(to + 16, high);
            if (args.quantised != 0) store(packed, row, norm.block(u), n / 32, threadIdx.x % 4, in_halves(low, high));
        });
    }
    __syncthreads();
    float sum[R];
    UNROLL for (uint r = 0; r < R; r++) sum[r] = 0;
    auto add = [&](float4 w, uint at) {
        UNROLL for (uint r = 0; r < R; r++) {
            float4 v = *(const float4*)(shared + r * n + at);
            sum[r] = fmaf(w.w, v.w, fmaf(w.z, v.z, fmaf(w.y, v.y, fmaf(w.x, v.x, sum[r]))));
        }
    };
    UNROLL for (uint u = 0; u < early; u++) {
        if (4 * lane + 128 * u < n) add(w[u], 4 * lane + 128 * u);
    }
    for (uint at = 4 * lane + 128 * early; at < n; at += 128) add(*(const float4*)(router + at), at);
    UNROLL for (uint r = 0; r < R; r++) {
        float v = warp_sum(sum[r]);
        if (lane > 0 || e >= args.experts + args.gated || first + r >= args.rows) continue;
        if (e == args.experts) gates[ulong(first + r) * args.gate_stride] = v;
        else logits[ulong(first + r) * args.experts + e] = v;
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) norm_route_2(const float* router, const float* gate, const float* x, const float* gain, float* normed, uchar* packed,
                                                                  float* logits, float* gates, NormRouteArgs args) {
    norm_route<2>(router, gate, x, gain, normed, packed, logits, gates, args);
}

struct RowRouteArgs {
    uint n;
    uint experts;
    uint norm_threads;
    float eps;
    uint gated;  // as in RouteArgs
};

// row_route computes the RMSNorm of one row, and the logits of the result. The kernels of the
// experts choose by these logits. Each threadgroup normalises the row x and computes the logits of
// eight experts. It reads the first columns of the router while the previous kernel still runs. The
// first threadgroup writes the normalised row to normed, and quantised to packed. Shared memory has
// the normalised row. Grid: (experts + gated) / 8, 256 threads.
extern "C" __global__ void __launch_bounds__(256) row_route(const float* router, const float* gate, const float* x, const float* gain, float* normed, uchar* packed,
                                                            float* logits, float* gates, RowRouteArgs args) {
    enum { early = 16 };
    extern __shared__ float row[];
    uint n = args.n, lane = threadIdx.x % 32, e = blockIdx.x * 8 + threadIdx.x / 32;
    router = weights_of(min(e, args.experts + args.gated - 1), router, gate, n, args.experts);
    float4 w[early];
    UNROLL for (uint u = 0; u < early; u++) {
        uint at = 4 * lane + 128 * u;
        w[u] = at < n ? *(const float4*)(router + at) : make_float4(0, 0, 0, 0);
    }
    NormRow<2> norm(gain, n / 32, args.norm_threads);
    wait_for_previous();
    norm.normalise(x, row, n / 32, args.eps, [&](uint u, float4 low, float4 high) {
        if (blockIdx.x > 0 || !norm.values.has(u)) return;
        write_four(normed + norm.values.offset(u), low);
        write_four(normed + norm.values.offset(u) + 16, high);
        store(packed, 0, norm.values.block(u), n / 32, threadIdx.x % 4, in_halves(low, high));
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
    if (lane > 0 || e >= args.experts + args.gated) return;
    (e == args.experts ? gates : logits + e)[0] = sum;
}

// row_choose chooses the experts of one row by the logits of row_route. Shared memory has two
// floats per expert. Grid: 1, 32 threads.
extern "C" __global__ void __launch_bounds__(32) row_choose(const float* logits, const float* bias, float* dst, RouteArgs args) {
    extern __shared__ float probabilities[];
    wait_for_previous();
    choose(logits, bias, dst, probabilities, args);
}
