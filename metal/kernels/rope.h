// Rotations of pairs of values, from a table of cosines and sines: [positions][dims], cos and sin of pair i at 2i and 2i+1.
#include "defs.h"

// rotate rotates n pairs of src into dst, which may be src. Thread tid takes the pairs tid, tid+threads and so on.
inline void rotate(device const float* src, device float* dst, device const float* angles, uint n, uint tid, uint threads) {
    for (uint i = tid; i < n; i += threads) {
        float a = src[2 * i], b = src[2 * i + 1], c = angles[2 * i], s = angles[2 * i + 1];
        dst[2 * i] = fma(a, c, -(b * s));
        dst[2 * i + 1] = fma(a, s, b * c);
    }
}
