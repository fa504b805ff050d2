// Weights of logits, from which tokens are drawn: see package compute, draw.go. All sums are of
// whole numbers, so they do not depend on the order or on the number of threads.
#include "best.h"

// DrawRowArgs has a row's options.
struct DrawRowArgs {
    uint kind;  // how the token is chosen: DRAW_HIGHEST, DRAW_ALL, DRAW_SOME or DRAW_GIVEN
    float scale;
    uint random_low, random_high;
    float margin;  // of min-p: -infinity for none
    uint top_k;    // 0 for none
    uint share;    // of top-p in units of 2^-32; 0 for none
    uint token;    // for DRAW_GIVEN
    uint edits, edit_count;  // the first edit in the lists, and the number of edits
    uint mask;               // 1 + the index of the mask in the lists; 0 for none
    float repetition, presence, frequency;
};

constant float max_logit = 1e30f;  // compute.MaxLogit

inline float limited(float v, float limit) { return min(max(v, -limit), limit); }

// exponent_of returns the exponent of a logit's weight.
inline int exponent_of(float logit, float scale) { return int(rint(limited(limited(logit, max_logit) * scale, 16777216.0f))); }

// weight_of returns the weight of a logit. top is the exponent of the highest logit. Every
// operation is rounded as in compute.Weigh.
inline ulong weight_of(float logit, float scale, int top) {
    logit = limited(logit, max_logit);
    float high = logit * scale;
    float low = fma(logit, scale, -high);
    float whole = rint(limited(high, 16777216.0f));
    float x = limited((high - whole) + low, 1.0f);
    float p = x * 1.535336188319500e-4f + 1.339887440266574e-3f;
    p = p * x + 9.618437357674640e-3f;
    p = p * x + 5.550332471162809e-2f;
    p = p * x + 2.402264791363012e-1f;
    p = p * x + 6.931472028550421e-1f;
    p = p * x + 1.0f;
    uint shift = min(uint(top - int(whole)), 63u);
    return (ulong(uint(p * 16777216.0f)) << 14) >> shift;
}

// key_of returns an integer that orders logits as their values do: compute.LogitKey.
inline uint key_of(float logit) {
    uint b = logit == 0 ? 0u : as_type<uint>(logit);
    return b ^ ((b >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}

// high_product returns the upper 64 bits of a product.
inline ulong high_product(ulong a, ulong b) {
    ulong al = uint(a), ah = a >> 32, bl = uint(b), bh = b >> 32;
    ulong middle = ah * bl + ((al * bl) >> 32);
    return ah * bh + (middle >> 32) + ((al * bh + uint(middle)) >> 32);
}

// mass_of returns a share, in units of 2^-32, of a total, rounded up.
inline ulong mass_of(uint share, ulong total) {
    ulong low = ulong(share) * uint(total);
    return ulong(share) * (total >> 32) + (low >> 32) + (uint(low) != 0 ? 1 : 0);
}

// simd_total returns the sum of the values of all lanes. Not every device can shuffle 64 bits.
inline ulong simd_total(ulong v) {
    for (uint m = 16; m > 0; m /= 2) {
        uint low = simd_shuffle_xor(uint(v), ushort(m)), high = simd_shuffle_xor(uint(v >> 32), ushort(m));
        v += ulong(high) << 32 | low;
    }
    return v;
}

inline ulong sum_at(threadgroup const uint* sums, uint i) { return ulong(sums[2 * i + 1]) << 32 | sums[2 * i]; }
