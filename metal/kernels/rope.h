// Rotations of pairs of values, from a table [positions][dims] of cosines and sines. Pair i has its cosine
// at 2i and its sine at 2i+1.
#include "defs.h"

// rotate rotates n pairs of src into dst, which may be src. Thread tid takes the pairs tid, tid+threads and so on.
inline void rotate(device const float* src, device float* dst, device const float* angles, uint n, uint tid, uint threads) {
    for (uint i = tid; i < n; i += threads) {
        float a = src[2 * i], b = src[2 * i + 1], c = angles[2 * i], s = angles[2 * i + 1];
        dst[2 * i] = fma(a, c, -(b * s));
        dst[2 * i + 1] = fma(a, s, b * c);
    }
}
