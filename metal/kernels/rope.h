// Rotations of pairs of values, from a table [positions][dims] of cosines and sines. Pair i has its cosine
// at 2i and its sine at 2i+1. It is values 2i and 2i+1 or, if halves is set, values i and i+n, for n pairs.
#include "defs.h"

// rotate rotates n pairs of src into dst, which may be src. Thread tid takes the pairs tid, tid+threads and so on.
inline void rotate(device const float* src, device float* dst, device const float* angles, uint n, bool halves, uint tid, uint threads) {
    for (uint i = tid; i < n; i += threads) {
        uint first = halves ? i : 2 * i, second = halves ? i + n : 2 * i + 1;
        float a = src[first], b = src[second], c = angles[2 * i], s = angles[2 * i + 1];
        dst[first] = fma(a, c, -(b * s));
        dst[second] = fma(a, s, b * c);
    }
}
