// Functions of vectors of 16 values.
#pragma once
#include "vec.h"

INLINE float max_of(f32x16 x) { return __builtin_reduce_max(x); }

// FOLD4 reduces each of four vectors of 16 values to one value with JOIN. The order is fixed,
// because sums depend on it: first the values in each group of four neighbours are joined, then the
// results of the four groups.
typedef float f32x4 VECTOR(float, 4);
typedef int32_t i32x4 VECTOR(int32_t, 4);
#define FOLD4(JOIN, a, b, c, d)                                                                                     \
  ({                                                                                                                \
    const __typeof__(a) ab = JOIN(__builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),   \
                                  __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)); \
    const __typeof__(a) cd = JOIN(__builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29),   \
                                  __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)); \
    const __typeof__(a) all = JOIN(__builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),   \
                                   __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)); \
    const __auto_type half = JOIN(__builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7),                          \
                                  __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15));                   \
    JOIN(__builtin_shufflevector(half, half, 0, 1, 2, 3), __builtin_shufflevector(half, half, 4, 5, 6, 7));           \
  })
#define PLUS(x, y) ((x) + (y))

INLINE f32x4 sums4(f32x16 a, f32x16 b, f32x16 c, f32x16 d) { return FOLD4(PLUS, a, b, c, d); }
INLINE i32x4 totals4(i32x16 a, i32x16 b, i32x16 c, i32x16 d) { return FOLD4(PLUS, a, b, c, d); }
INLINE f32x4 max4(f32x16 a, f32x16 b, f32x16 c, f32x16 d) { return FOLD4(__builtin_elementwise_max, a, b, c, d); }

INLINE float sum_of(f32x16 x) { return sums4(x, x, x, x)[0]; }

// exp16 returns e^x with an error of at most 2 units in the last place; 0 for x below -87.3. The
// reduction and the polynomial are those of expf in Cephes.
INLINE f32x16 exp16(f32x16 x) {
  const f32x16 clamped = __builtin_elementwise_min(__builtin_elementwise_max(x, splat16(-87.3f)), splat16(88.3f));
  const f32x16 n = __builtin_elementwise_roundeven(clamped * 1.44269504088896341f);
  f32x16 r = fma16(n, splat16(-0.693359375f), clamped);
  r = fma16(n, splat16(2.12194440e-4f), r);
  f32x16 p = splat16(1.9875691500e-4f);
  p = fma16(p, r, splat16(1.3981999507e-3f));
  p = fma16(p, r, splat16(8.3334519073e-3f));
  p = fma16(p, r, splat16(4.1665795894e-2f));
  p = fma16(p, r, splat16(1.6666665459e-1f));
  p = fma16(p, r, splat16(5.0000001201e-1f));
  p = fma16(p, r * r, r) + 1;
  const f32x16 power = (f32x16)((CONVERT(n, i32x16) + 127) << 23);
  return (f32x16)((i32x16)(p * power) & (x > -87.3f));
}
