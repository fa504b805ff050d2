// Weights of logits, from which tokens are drawn.
#include "args.h"
#include "math.h"

typedef double f64x8 VECTOR(double, 8);
typedef int64_t i64x8 VECTOR(int64_t, 8);
typedef uint64_t u64x8 VECTOR(uint64_t, 8);

// peak finds the highest value. A NaN is never the highest.
void LEVEL(peak)(struct peak_args *a) {
  const i32x16 first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  f32x16 best = splat16(-__builtin_inff());
  i32x16 at = {0}, broken = {0};
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) {
    const f32x16 x = LOAD(f32x16, a->x + i);
    const i32x16 more = x > best;
    best = (f32x16)(((i32x16)x & more) | ((i32x16)best & ~more));
    at = ((first + (int32_t)i) & more) | (at & ~more);
    broken |= ~(x < splat16(__builtin_inff()));
  }
  float top = -__builtin_inff();
  int64_t id = 0;
  ROLLED for (int j = 0; j < 16; j++) {
    if (best[j] > top || (best[j] == top && at[j] < id)) {
      top = best[j];
      id = at[j];
    }
  }
  int bad = __builtin_reduce_or(broken);
  ROLLED for (int64_t j = i; j < a->n; j++) {
    bad |= !(a->x[j] < __builtin_inff());
    if (a->x[j] > top) {
      top = a->x[j];
      id = j;
    }
  }
  a->id = id;
  a->value = bad ? __builtin_inf() : top;
}

// weighing has what the weights of a row have in common.
struct weighing {
  float scale, lowest;
  int32_t top;
  int wide;  // whether logits times scale can exceed what near16 allows
};

#define NEAR 0x1p21f         // near16 needs products of less than this
#define INTEGER 0x1.8p23f    // a float32 plus this is rounded to an integer, which is in the low bits of the sum
#define BITS 38              // the bits of the highest weight: 24 + compute.WeightShift

INLINE struct weighing weighing_of(double scale, double lowest, int64_t top) {
  struct weighing w = {(float)scale, __builtin_fmaxf((float)lowest, -3.4e38f), (int32_t)top, __builtin_fabsf((float)top) >= NEAR};
  // Far lower logits have no weight. Without them, every power of 2 in near16 is a normal number.
  if (!w.wide) w.lowest = __builtin_fmaxf(w.lowest, ((float)top - 64.0f) / w.scale);
  return w;
}

// power16 returns 2^x for x near [-1/2, 1/2]. Every operation is rounded as in compute.Weigh.
INLINE f32x16 power16(f32x16 x) {
  f32x16 p = x * 1.535336188319500e-4f + 1.339887440266574e-3f;
  p = p * x + 9.618437357674640e-3f;
  p = p * x + 5.550332471162809e-2f;
  p = p * x + 2.402264791363012e-1f;
  p = p * x + 6.931472028550421e-1f;
  return p * x + 1.0f;
}

// near16 returns the weights of 16 logits of usual size. They are whole numbers of at most 25
// significant bits, so float32 is exact: the mantissa of a power from 1/2 to 2 is one of 24 bits.
INLINE f32x16 near16(f32x16 x, struct weighing w) {
  const i32x16 kept = x >= w.lowest;
  const f32x16 high = x * w.scale, low = fma16(x, splat16(w.scale), -high);
  const f32x16 shifted = high + INTEGER, whole = shifted - INTEGER;
  const f32x16 p = power16((high - whole) + low);
  const i32x16 weight = (i32x16)p + ((i32x16)shifted << 23) + (int32_t)((uint32_t)(BITS - w.top) << 23);
  return __builtin_elementwise_floor((f32x16)(weight & kept));
}

// wide16 returns the weights of any 16 logits.
INLINE f32x16 wide16(f32x16 x, struct weighing w) {
  const i32x16 kept = x >= w.lowest;
  x = __builtin_elementwise_min(__builtin_elementwise_max(x, splat16(-1e30f)), splat16(1e30f));
  const f32x16 high = x * w.scale, low = fma16(x, splat16(w.scale), -high);
  const f32x16 whole = __builtin_elementwise_roundeven(__builtin_elementwise_min(__builtin_elementwise_max(high, splat16(-0x1p24f)), splat16(0x1p24f)));
  const f32x16 r = (high - whole) + low;
  const f32x16 p = power16(__builtin_elementwise_min(__builtin_elementwise_max(r, splat16(-1)), splat16(1)));
  const i32x16 shift = __builtin_elementwise_min(w.top - CONVERT(whole, i32x16), (i32x16){0} + 63);
  const f32x16 weight = __builtin_elementwise_floor(p * 0x1p24f) * (f32x16)((127 + BITS - 24 - shift) << 23);
  return (f32x16)((i32x16)__builtin_elementwise_floor(weight) & kept);
}

INLINE f32x16 weights16(f32x16 x, struct weighing w) { return w.wide ? wide16(x, w) : near16(x, w); }

// pair64 has 16 values of a vector as float64.
struct pair64 {
  f64x8 low, high;
};

INLINE struct pair64 doubles(f32x16 x) {
  return (struct pair64){CONVERT(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7), f64x8),
                         CONVERT(__builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15), f64x8)};
}

// Sums of up to SUMMED weights, which are below 2^40, are exact in float64.
#define SUMMED 65536

INLINE void add64(struct pair64 *s, struct pair64 x) {
  s->low += x.low;
  s->high += x.high;
}

// mask16 is a condition on each of 16 values.
#if LANES == 16
typedef __mmask16 mask16;
INLINE mask16 above16(f32x16 x, float limit) { return _mm512_cmp_ps_mask((__m512)x, (__m512)splat16(limit), _CMP_GT_OQ); }
INLINE mask16 between16(f32x16 x, float low, float high) {
  return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask((__m512)x, (__m512)splat16(low), _CMP_GE_OQ), (__m512)x, (__m512)splat16(high), _CMP_LE_OQ);
}
#else
typedef i32x16 mask16;
INLINE mask16 above16(f32x16 x, float limit) { return x > limit; }
INLINE mask16 between16(f32x16 x, float low, float high) { return (x >= low) & (x <= high); }
#endif

// add64_if adds the values for which the condition holds.
INLINE void add64_if(struct pair64 *s, struct pair64 x, mask16 mask) {
#if LANES == 16
  s->low = (f64x8)_mm512_mask_add_pd((__m512d)s->low, (__mmask8)mask, (__m512d)s->low, (__m512d)x.low);
  s->high = (f64x8)_mm512_mask_add_pd((__m512d)s->high, (__mmask8)(mask >> 8), (__m512d)s->high, (__m512d)x.high);
#else
  s->low += (f64x8)((i64x8)x.low & CONVERT(__builtin_shufflevector(mask, mask, 0, 1, 2, 3, 4, 5, 6, 7), i64x8));
  s->high += (f64x8)((i64x8)x.high & CONVERT(__builtin_shufflevector(mask, mask, 8, 9, 10, 11, 12, 13, 14, 15), i64x8));
#endif
}

INLINE uint64_t total64(struct pair64 s) { return __builtin_reduce_add(CONVERT(s.low + s.high, u64x8)); }

// few16 returns fewer than 16 values at p, and -infinity for the others.
INLINE f32x16 few16(const float *p, int64_t n) {
  float last[16];
  ROLLED for (int j = 0; j < 16; j++) last[j] = j < n ? p[j] : -__builtin_inff();
  return LOAD(f32x16, last);
}

// weigh computes the weights of logits and their sum.
void LEVEL(weigh)(struct weigh_args *a) {
  const struct weighing w = weighing_of(a->scale, a->lowest, a->top);
  a->sum = 0;
  ROLLED for (int64_t from = 0; from < a->n; from += SUMMED) {
    const int64_t to = from + SUMMED < a->n ? from + SUMMED : a->n;
    struct pair64 sum = {0};
    int64_t i = from;
    if (!a->out && !w.wide) {
      for (; i + 16 <= to; i += 16) add64(&sum, doubles(near16(LOAD(f32x16, a->x + i), w)));
    }
    ROLLED for (; i + 16 <= to; i += 16) {
      const f32x16 x = weights16(LOAD(f32x16, a->x + i), w);
      if (a->out) STORE(f32x16, a->out + i, x);
      add64(&sum, doubles(x));
    }
    if (i < to) {
      const f32x16 x = weights16(few16(a->x + i, to - i), w);
      add64(&sum, doubles(x));
      if (a->out) {
        ROLLED for (int j = 0; j < to - i; j++) a->out[i + j] = x[j];
      }
    }
    a->sum += total64(sum);
  }
}

// list16 writes the values for which the condition holds, and their indices, of which the first is
// i. It may write 16 of both. It returns their number.
INLINE int64_t list16(int32_t *ids, float *values, int64_t i, f32x16 x, mask16 mask) {
#if LANES == 16
  const i32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  STORE(i32x16, ids, (i32x16)_mm512_maskz_compress_epi32(mask, (__m512i)(lanes + (int32_t)i)));
  STORE(f32x16, values, (f32x16)_mm512_maskz_compress_ps(mask, (__m512)x));
  return __builtin_popcount(mask);
#elif LANES == 8
  const __m256 low = (__m256)__builtin_shufflevector(mask, mask, 0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 high = (__m256)__builtin_shufflevector(mask, mask, 8, 9, 10, 11, 12, 13, 14, 15);
  uint32_t bits = (uint32_t)_mm256_movemask_ps(low) | (uint32_t)_mm256_movemask_ps(high) << 8;
  int64_t count = 0;
  for (; bits; bits &= bits - 1, count++) {
    const int j = __builtin_ctz(bits);
    ids[count] = (int32_t)i + j;
    values[count] = x[j];
  }
  return count;
#else
  int64_t count = 0;
  if (__builtin_reduce_or(mask)) {
    ROLLED for (int j = 0; j < 16; j++) {
      ids[count] = (int32_t)i + j;
      values[count] = x[j];
      count -= mask[j];
    }
  }
  return count;
#endif
}

// list lists the values from one limit to another.
void LEVEL(list)(struct list_args *a) {
  const float low = (float)a->low, high = (float)a->high;
  int64_t count = 0, i = 0;
  for (; i + 16 <= a->n; i += 16) {
    const f32x16 x = LOAD(f32x16, a->x + i);
    count += list16(a->ids + count, a->values + count, i, x, between16(x, low, high));
  }
  ROLLED for (; i < a->n; i++) {
    a->ids[count] = (int32_t)i;
    a->values[count] = a->x[i];
    count += a->x[i] >= low && a->x[i] <= high;
  }
  a->count = count;
}

// bracket adds up the weights of all values and of those above a limit, and lists the values from
// another limit to it.
void LEVEL(bracket)(struct bracket_args *a) {
  const struct weighing w = weighing_of(a->scale, a->lowest, a->top);
  const float low = (float)a->low, high = (float)a->high;
  struct pair64 sum = {0}, above = {0};
  int64_t count = 0, i = 0;
  for (; i + 16 <= a->n; i += 16) {
    const f32x16 x = LOAD(f32x16, a->x + i);
    const struct pair64 weights = doubles(weights16(x, w));
    add64(&sum, weights);
    add64_if(&above, weights, above16(x, high));
    count += list16(a->ids + count, a->values + count, i, x, between16(x, low, high));
  }
  if (i < a->n) {
    const f32x16 x = few16(a->x + i, a->n - i);
    const struct pair64 weights = doubles(weights16(x, w));
    add64(&sum, weights);
    add64_if(&above, weights, above16(x, high));
    count += list16(a->ids + count, a->values + count, i, x, between16(x, low, high));
  }
  a->sum = total64(sum);
  a->above = total64(above);
  a->count = count;
}

// above adds up the weights of the values above a limit.
void LEVEL(above)(struct above_args *a) {
  const float limit = (float)a->limit;
  a->sum = 0;
  ROLLED for (int64_t from = 0; from < a->n; from += SUMMED) {
    const int64_t to = from + SUMMED < a->n ? from + SUMMED : a->n;
    struct pair64 sum = {0};
    int64_t i = from;
    for (; i + 16 <= to; i += 16) add64_if(&sum, doubles(LOAD(f32x16, a->weights + i)), above16(LOAD(f32x16, a->x + i), limit));
    a->sum += total64(sum);
    ROLLED for (; i < to; i++) a->sum += a->x[i] > limit ? (uint64_t)a->weights[i] : 0;
  }
}
