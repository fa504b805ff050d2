// Weights of logits, from which tokens are drawn.
#include "args.h"
#include "math.h"

typedef double f64x8 VECTOR(double, 8);
typedef int64_t i64x8 VECTOR(int64_t, 8);
typedef uint64_t u64x8 VECTOR(uint64_t, 8);

// WIDTH is the number of logits whose weights are computed side by side. Each of the many
// operations of a weight waits for the one before, so large cores need many at once.
#if LANES == 16
#define WIDTH 128
#else
#define WIDTH 16
#endif
typedef float f32w VECTOR(float, WIDTH);
typedef int32_t i32w VECTOR(int32_t, WIDTH);

INLINE f32w splatw(float x) { return x - (f32w){0}; }

// piece returns 16 successive values of a vector.
INLINE f32x16 piece(f32w x, const int i) {
  f32x16 all[WIDTH / 16];
  STORE(f32w, all, x);
  return all[i];
}

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
  float top = max_of(best);
  const i32x16 highest = best == splat16(top);
  int64_t id = __builtin_reduce_min((at & highest) | (INT32_MAX & ~highest));
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
  int wide;  // whether logits times scale can exceed what near allows
};

#define NEAR 0x1p21f         // near needs products of less than this
#define INTEGER 0x1.8p23f    // a float32 plus this is rounded to an integer, which is in the low bits of the sum
#define BITS 38              // the bits of the highest weight: 24 + compute.WeightShift

INLINE struct weighing weighing_of(double scale, double lowest, int64_t top) {
  struct weighing w = {(float)scale, __builtin_fmaxf((float)lowest, -3.4e38f), (int32_t)top, __builtin_fabsf((float)top) >= NEAR};
  // Far lower logits have no weight. Without them, every power of 2 in near is a normal number.
  if (!w.wide) w.lowest = __builtin_fmaxf(w.lowest, ((float)top - 64.0f) / w.scale);
  return w;
}

// power returns 2^x for x near [-1/2, 1/2]. Every operation is rounded as in compute.Weigh.
INLINE f32w power(f32w x) {
  f32w p = x * 1.535336188319500e-4f + 1.339887440266574e-3f;
  p = p * x + 9.618437357674640e-3f;
  p = p * x + 5.550332471162809e-2f;
  p = p * x + 2.402264791363012e-1f;
  p = p * x + 6.931472028550421e-1f;
  return p * x + 1.0f;
}

// near returns the weights of logits of usual size, before they are rounded down to whole numbers.
// These have at most 25 significant bits, so float32 is exact: the mantissa of a power from 1/2 to
// 2 is one of 24 bits.
INLINE f32w near(f32w x, struct weighing w) {
  const i32w kept = x >= w.lowest;
  const f32w shifted = x * w.scale + INTEGER, whole = shifted - INTEGER;
  // This difference has the same bits as that of the rounded product plus what its rounding lost,
  // since both are one rounding of the exact difference.
  const f32w p = power(__builtin_elementwise_fma(x, splatw(w.scale), -whole));
  const i32w weight = (i32w)p + ((i32w)shifted << 23) + (int32_t)((uint32_t)(BITS - w.top) << 23);
  return (f32w)(weight & kept);
}

// far is near for any logits.
INLINE f32w far(f32w x, struct weighing w) {
  const i32w kept = x >= w.lowest;
  x = __builtin_elementwise_min(__builtin_elementwise_max(x, splatw(-1e30f)), splatw(1e30f));
  const f32w high = x * w.scale, low = __builtin_elementwise_fma(x, splatw(w.scale), -high);
  const f32w whole = __builtin_elementwise_roundeven(__builtin_elementwise_min(__builtin_elementwise_max(high, splatw(-0x1p24f)), splatw(0x1p24f)));
  const f32w r = (high - whole) + low;
  const f32w p = power(__builtin_elementwise_min(__builtin_elementwise_max(r, splatw(-1)), splatw(1)));
  const i32w shift = __builtin_elementwise_min(w.top - CONVERT(whole, i32w), (i32w){0} + 63);
  return (f32w)((i32w)(__builtin_elementwise_floor(p * 0x1p24f) * (f32w)((127 + BITS - 24 - shift) << 23)) & kept);
}

INLINE f32w unrounded(f32w x, struct weighing w) { return w.wide ? far(x, w) : near(x, w); }

// whole8 has exact sums of weights: as integers where there is an instruction to convert weights to
// them, which also rounds down, and otherwise as float64.
#if LANES == 16
typedef u64x8 whole8;
#define ROUNDED(x) (x)
#else
typedef f64x8 whole8;
#define ROUNDED(x) __builtin_elementwise_floor(x)
#endif

// pair64 has 16 weights, or sums of weights.
struct pair64 {
  whole8 low, high;
};

INLINE struct pair64 exact(f32x16 x) {
  return (struct pair64){CONVERT(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7), whole8),
                         CONVERT(__builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15), whole8)};
}

// rounded is exact for weights that are not rounded down yet.
INLINE struct pair64 rounded(f32x16 x) { return exact(ROUNDED(x)); }

// Sums of up to SUMMED weights, which are below 2^40, are exact in float64.
#define SUMMED 65536

INLINE void add64(struct pair64 *s, struct pair64 x) {
  s->low += x.low;
  s->high += x.high;
}

// add_weights adds weights, rounded down.
INLINE void add_weights(struct pair64 *s, f32w x) {
  UNROLL for (int j = 0; j < WIDTH / 16; j++) add64(s, rounded(piece(x, j)));
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
  s->low = (u64x8)_mm512_mask_add_epi64((__m512i)s->low, (__mmask8)mask, (__m512i)s->low, (__m512i)x.low);
  s->high = (u64x8)_mm512_mask_add_epi64((__m512i)s->high, (__mmask8)(mask >> 8), (__m512i)s->high, (__m512i)x.high);
#else
  s->low += (f64x8)((i64x8)x.low & CONVERT(__builtin_shufflevector(mask, mask, 0, 1, 2, 3, 4, 5, 6, 7), i64x8));
  s->high += (f64x8)((i64x8)x.high & CONVERT(__builtin_shufflevector(mask, mask, 8, 9, 10, 11, 12, 13, 14, 15), i64x8));
#endif
}

INLINE uint64_t total64(struct pair64 s) { return __builtin_reduce_add(CONVERT(s.low + s.high, u64x8)); }

// few returns fewer than WIDTH values at p, and -infinity for the others.
INLINE f32w few(const float *p, int64_t n) {
  float last[WIDTH];
  ROLLED for (int j = 0; j < WIDTH; j++) last[j] = j < n ? p[j] : -__builtin_inff();
  return LOAD(f32w, last);
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
      ROLLED for (; i + WIDTH <= to; i += WIDTH) add_weights(&sum, near(LOAD(f32w, a->x + i), w));
    }
    ROLLED for (; i + WIDTH <= to; i += WIDTH) {
      const f32w x = unrounded(LOAD(f32w, a->x + i), w);
      if (a->out) STORE(f32w, a->out + i, __builtin_elementwise_floor(x));
      add_weights(&sum, x);
    }
    if (i < to) {
      const f32w x = __builtin_elementwise_floor(unrounded(few(a->x + i, to - i), w));
      add_weights(&sum, x);
      if (a->out) {
        ROLLED for (int j = 0; j < to - i; j++) a->out[i + j] = x[j];
      }
    }
    a->sum += total64(sum);
  }
}

// list16 writes the values for which the condition holds and, unless ids is null, their indices, of
// which the first is i. It may write 16 of both. It returns their number.
INLINE int64_t list16(int32_t *ids, float *values, int64_t i, f32x16 x, mask16 mask) {
#if LANES == 16
  const i32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (ids) STORE(i32x16, ids, (i32x16)_mm512_maskz_compress_epi32(mask, (__m512i)(lanes + (int32_t)i)));
  STORE(f32x16, values, (f32x16)_mm512_maskz_compress_ps(mask, (__m512)x));
  return __builtin_popcount(mask);
#elif LANES == 8
  const __m256 low = (__m256)__builtin_shufflevector(mask, mask, 0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 high = (__m256)__builtin_shufflevector(mask, mask, 8, 9, 10, 11, 12, 13, 14, 15);
  uint32_t bits = (uint32_t)_mm256_movemask_ps(low) | (uint32_t)_mm256_movemask_ps(high) << 8;
  int64_t count = 0;
  for (; bits; bits &= bits - 1, count++) {
    const int j = __builtin_ctz(bits);
    if (ids) ids[count] = (int32_t)i + j;
    values[count] = x[j];
  }
  return count;
#else
  int64_t count = 0;
  if (__builtin_reduce_or(mask)) {
    ROLLED for (int j = 0; j < 16; j++) {
      if (ids) ids[count] = (int32_t)i + j;
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
  float *const values = a->values;
  struct pair64 sum = {0}, above = {0};
  int64_t count = 0;
  ROLLED for (int64_t i = 0; i < a->n; i += WIDTH) {
    const f32w x = i + WIDTH <= a->n ? LOAD(f32w, a->x + i) : few(a->x + i, a->n - i);
    const f32w all = unrounded(x, w);
    UNROLL for (int j = 0; j < WIDTH / 16; j++) {
      const f32x16 own = piece(x, j);
      const struct pair64 weights = rounded(piece(all, j));
      add64(&sum, weights);
      add64_if(&above, weights, above16(own, high));
      count += list16(0, values + count, 0, own, between16(own, low, high));
    }
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
    for (; i + 16 <= to; i += 16) add64_if(&sum, exact(LOAD(f32x16, a->weights + i)), above16(LOAD(f32x16, a->x + i), limit));
    a->sum += total64(sum);
    ROLLED for (; i < to; i++) a->sum += a->x[i] > limit ? (uint64_t)a->weights[i] : 0;
  }
}
