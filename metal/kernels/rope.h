// Rotations of pairs of values. A table [positions][dims] has the cosine of pair i at 2i and its
// sine at 2i+1. Pair i of n pairs consists of values 2i and 2i+1 or, if halves is set, of values i
// and i+n.
#include "defs.h"

// rotate writes the n rotated pairs of src to dst, which may be src. Thread tid rotates the pairs
// tid, tid+threads and so on.
inline void rotate(device const float* src, device float* dst, device const float* angles, uint n, bool halves, uint tid, uint threads) {
    for (uint i = tid; i < n; i += threads) {
        uint first = halves ? i : 2 * i, second = halves ? i + n : 2 * i + 1;
        float a = src[first], b = src[second], c = angles[2 * i], s = angles[2 * i + 1];
        dst[first] = fma(a, c, -(b * s));
        dst[second] = fma(a, s, b * c);
    }
}
