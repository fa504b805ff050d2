// Weights of logits, from which tokens are drawn.
#include "args.h"
#include "math.h"

typedef uint64_t u64x16 VECTOR(uint64_t, 16);
typedef int64_t i64x16 VECTOR(int64_t, 16);
typedef uint32_t u32x16 VECTOR(uint32_t, 16);

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

// weights16 returns the weights of 16 logits. Every operation is rounded as in compute.Weigh.
INLINE u64x16 weights16(f32x16 x, float scale, float lowest, int32_t top) {
  const i32x16 kept = x >= lowest;
  x = __builtin_elementwise_min(__builtin_elementwise_max(x, splat16(-1e30f)), splat16(1e30f));
  const f32x16 high = x * scale, low = fma16(x, splat16(scale), -high);
  const f32x16 whole = __builtin_elementwise_roundeven(__builtin_elementwise_min(__builtin_elementwise_max(high, splat16(-0x1p24f)), splat16(0x1p24f)));
  f32x16 r = (high - whole) + low;
  r = __builtin_elementwise_min(__builtin_elementwise_max(r, splat16(-1)), splat16(1));
  f32x16 p = r * 1.535336188319500e-4f + 1.339887440266574e-3f;
  p = p * r + 9.618437357674640e-3f;
  p = p * r + 5.550332471162809e-2f;
  p = p * r + 2.402264791363012e-1f;
  p = p * r + 6.931472028550421e-1f;
  p = p * r + 1.0f;
  const i32x16 mantissa = CONVERT(p * 0x1p24f, i32x16) & kept;
  const i32x16 shift = __builtin_elementwise_min(top - CONVERT(whole, i32x16), (i32x16){0} + 63);
  return CONVERT((u32x16)mantissa, u64x16) << 14 >> CONVERT((u32x16)shift, u64x16);
}

// weigh computes the weights of logits and their sum.
void LEVEL(weigh)(struct weigh_args *a) {
  const float scale = (float)a->scale, lowest = (float)a->lowest;
  const int32_t top = (int32_t)a->top;
  u64x16 sums = {0};
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) {
    const u64x16 w = weights16(LOAD(f32x16, a->x + i), scale, lowest, top);
    if (a->out) STORE(u64x16, a->out + i, w);
    sums += w;
  }
  uint64_t sum = __builtin_reduce_add(sums);
  if (i < a->n) {
    float last[16];
    ROLLED for (int j = 0; j < 16; j++) last[j] = i + j < a->n ? a->x[i + j] : -__builtin_inff();
    u64x16 w = weights16(LOAD(f32x16, last), scale, __builtin_fmaxf(lowest, -3.4e38f), top);
    sum += __builtin_reduce_add(w);
    if (a->out) {
      ROLLED for (int j = 0; j < 16 && i + j < a->n; j++) a->out[i + j] = w[j];
    }
  }
  a->sum = sum;
}

// bracket adds up the weights of values above a limit, and lists the values from another limit to
// it.
void LEVEL(bracket)(struct bracket_args *a) {
  const float low = (float)a->low, high = (float)a->high;
  u64x16 sums = {0};
  int64_t i = 0, count = 0;
  for (; i + 16 <= a->n; i += 16) {
    const f32x16 x = LOAD(f32x16, a->x + i);
    const i32x16 above = x > high, inside = (x >= low) & ~above;
    sums += LOAD(u64x16, a->weights + i) & (u64x16)CONVERT(above, i64x16);
    if (__builtin_reduce_or(inside)) {
      ROLLED for (int64_t j = i; j < i + 16; j++) {
        a->ids[count] = (int32_t)j;
        count += a->x[j] >= low && a->x[j] <= high;
      }
    }
  }
  uint64_t sum = __builtin_reduce_add(sums);
  ROLLED for (; i < a->n; i++) {
    if (a->x[i] > high) {
      sum += a->weights[i];
    } else if (a->x[i] >= low) {
      a->ids[count++] = (int32_t)i;
    }
  }
  a->count = count;
  a->above = sum;
}
