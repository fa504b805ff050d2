// The root mean square of a row, computed by a whole threadgroup.
#include "defs.h"

// rms_scale returns 1/sqrt(mean(x²)+eps) of n values. shared has a float per simdgroup. All threads
// of the threadgroup must call rms_scale. They must not change x before the next barrier.
inline float rms_scale(device const float* x, uint n, float eps, threadgroup float* shared, uint tid, uint lane, uint simdgroup, uint simdgroups) {
    constexpr uint together = 8;  // reads that are issued before the first use
    uint threads = simdgroups * 32;
    float sum = 0;
    for (uint first = tid; first < n; first += together * threads) {
        float v[together];
        UNROLL for (uint i = 0; i < together; i++) v[i] = first + i * threads < n ? x[first + i * threads] : 0.0f;
        UNROLL for (uint i = 0; i < together; i++) sum = fma(v[i], v[i], sum);
    }
    sum = tree_sum(sum);
    if (lane == 0) shared[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0;
    for (uint i = 0; i < simdgroups; i++) total += shared[i];
    return rsqrt(total / float(n) + eps);
}

// scale_row writes x·scale·gain of n values to dst or, if add is true, adds it to dst. All threads
// of the threadgroup call scale_row.
inline void scale_row(device const float* x, device const float* gain, device float* dst, uint n, float scale, bool add, uint tid, uint threads) {
    constexpr uint together = 8;  // reads that are issued before the first use
    for (uint first = tid; first < n; first += together * threads) {
        float v[together], g[together], sum[together];
        UNROLL for (uint i = 0; i < together; i++) {
            uint at = first + i * threads;
            v[i] = at < n ? x[at] : 0.0f;
            g[i] = at < n ? gain[at] : 0.0f;
            sum[i] = add && at < n ? dst[at] : 0.0f;
        }
        UNROLL for (uint i = 0; i < together; i++) {
            float scaled = v[i] * scale * g[i];
            if (first + i * threads < n) dst[first + i * threads] = add ? sum[i] + scaled : scaled;
        }
    }
}
