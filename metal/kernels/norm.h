// The norm of a row, computed by a whole threadgroup.
#include "defs.h"

// NormValues are values of a row with their gains, read by one thread: those at a position and at
// those that are a multiple of the number of threads behind it. All reads are issued before the
// first use.
struct NormValues {
    enum { count = 8 };
    float x[count], gain[count], before[count];

    // read reads values and gains of a row of n from position first on and, if add is true, what is
    // in dst. Past the end of the row they are zeros.
    void read(device const float* row, device const float* gains, device const float* dst, uint n, bool add, uint first, uint threads) {
        UNROLL for (uint i = 0; i < count; i++) {
            uint at = first + i * threads;
            x[i] = at < n ? row[at] : 0.0f;
            gain[i] = at < n ? gains[at] : 0.0f;
            before[i] = add && at < n ? dst[at] : 0.0f;
        }
    }
    void write(device float* dst, float scale, uint n, bool add, uint first, uint threads) const {
        UNROLL for (uint i = 0; i < count; i++) {
            float scaled = x[i] * scale * gain[i];
            if (first + i * threads < n) dst[first + i * threads] = add ? before[i] + scaled : scaled;
        }
    }
};

// add_squares adds the squares of values to a sum.
inline float add_squares(thread const float* x, float sum) {
    UNROLL for (uint i = 0; i < NormValues::count; i++) sum = fma(x[i], x[i], sum);
    return sum;
}

// norm_row writes x/sqrt(mean(x²)+eps)·gain of a row of n values to dst or, if add is true, adds it
// to dst. dst may be x. A thread keeps the first values and gains that it reads while the squares
// are added up. shared has a float per simdgroup. All threads of the threadgroup call norm_row.
inline void norm_row(device const float* x, device const float* gain, device float* dst, uint n, float eps, bool add, threadgroup float* shared, uint tid, uint lane, uint simdgroup, uint simdgroups) {
    uint threads = simdgroups * 32, each = NormValues::count * threads;
    NormValues own;
    own.read(x, gain, dst, n, add, tid, threads);
    float sum = add_squares(own.x, 0.0f);
    for (uint first = tid + each; first < n; first += each) {
        float more[NormValues::count];
        UNROLL for (uint i = 0; i < NormValues::count; i++) more[i] = first + i * threads < n ? x[first + i * threads] : 0.0f;
        sum = add_squares(more, sum);
    }
    sum = tree_sum(sum);
    if (lane == 0) shared[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0;
    for (uint i = 0; i < simdgroups; i++) total += shared[i];
    float scale = rsqrt(total / float(n) + eps);
    for (uint first = tid; first < n; first += each) {
        if (first > tid) own.read(x, gain, dst, n, add, first, threads);
        own.write(dst, scale, n, add, first, threads);
    }
}
