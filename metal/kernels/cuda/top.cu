// The largest logit of each row, in two kernels: one for parts of a row, one that joins the parts.
#include "base.h"

struct TopArgs {
    uint cols;
    uint parts;       // per row
    uint src_stride;
    uint dst_stride;
};

// TopPart has the largest value of a part of a row, the value's index, and the sum of exp(v-value).
// Among equal values, the lowest index counts. The sum is infinite if a value is NaN or infinity.
struct TopPart {
    float value;
    uint index;
    float sum;
};

__device__ inline bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }
__device__ inline bool is_finite(float v) { return (__float_as_uint(v) & 0x7f800000) != 0x7f800000; }

// best_of finds the best value of 256 threads and the value's index. All threads receive the
// result.
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
    for (uint i = begin + threadIdx.x; i < end; i += 256) sum += is_finite(src[i]) ? expf(src[i] - value) : src[i] == -infinity ? 0.0f : infinity;
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    float total = 0;
    for (uint i = 0; i < 8; i++) total += sums[i];
    parts[blockIdx.y * args.parts + blockIdx.x] = {value, index, total};
}

// top_join writes [index | value | logarithm of the sum of all exponentials] of a row. A warp takes
// a row, and each lane a part of it.
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
