// Operations over one row of float32.
#include "args.h"
#include "math.h"

// rms_norm writes src/sqrt(mean(src²)+eps)·gain.
void LEVEL(rms_norm)(const struct norm_args *a) {
  f32x16 sum = splat16(0);
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) {
    const f32x16 x = LOAD(f32x16, a->src + i);
    sum = fma16(x, x, sum);
  }
  float total = sum_of(sum);
  for (int64_t j = i; j < a->n; j++) total += a->src[j] * a->src[j];
  const float scale = 1 / __builtin_sqrtf(total / (float)a->n + (float)a->eps);
  for (i = 0; i + 16 <= a->n; i += 16) {
    STORE(f32x16, a->dst + i, LOAD(f32x16, a->src + i) * scale * LOAD(f32x16, a->gain + i));
  }
  ROLLED for (; i < a->n; i++) a->dst[i] = a->src[i] * scale * a->gain[i];
}

// activate returns x·σ(inner)·up, where inner depends on the kind of activation, or max(x, 0)·up;
// see portable.go for the kinds and the constants.
INLINE f32x16 activate(f32x16 x, f32x16 up, const int kind) {
  f32x16 inner = x;
  if (kind == 3) return __builtin_elementwise_max(x, splat16(0)) * up;
  if (kind == 1) inner = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  if (kind == 2) {
    x = __builtin_elementwise_min(x, splat16(7));
    up = __builtin_elementwise_min(__builtin_elementwise_max(up, splat16(-7)), splat16(7)) + 1;
    inner = 1.702f * x;
  }
  return x / (1 + exp16(-inner)) * up;
}

INLINE void gate_row(const struct gate_args *a, const int kind) {
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) {
    STORE(f32x16, a->dst + i, activate(LOAD(f32x16, a->gate + i), LOAD(f32x16, a->up + i), kind));
  }
  ROLLED for (; i < a->n; i++) a->dst[i] = activate(splat16(a->gate[i]), splat16(a->up[i]), kind)[0];
}

// gate writes the activation of gate and up.
void LEVEL(gate)(const struct gate_args *a) {
  if (a->kind == 3) {
    gate_row(a, 3);
  } else if (a->kind == 2) {
    gate_row(a, 2);
  } else if (a->kind == 1) {
    gate_row(a, 1);
  } else {
    gate_row(a, 0);
  }
}

typedef float f32x8 VECTOR(float, 8);
typedef double f64x8 VECTOR(double, 8);
typedef int64_t i64x8 VECTOR(int64_t, 8);

// soft_cap8 returns limit·tanh(x/limit) for |x|, with the sign of x. It computes in float64, by
// tanh(t/2) = (e^t-1)/(e^t+1), and e^t-1 for t = n·ln(2)+r as 2^n·(e^r-1) + 2^n-1. For |r| of at
// most ln(2)/2, the Taylor polynomial of e^r-1 is exact to float64.
INLINE f32x8 soft_cap8(f32x8 x, double limit) {
  const f64x8 zero = {0}, round = zero + 0x1.8p52, most = zero + 44;  // tanh(22) is 1
  f64x8 t = CONVERT(__builtin_elementwise_abs(x), f64x8) * (2 / limit);
  const i64x8 above = t > most;  // not if t is NaN
  t = (f64x8)(((i64x8)most & above) | ((i64x8)t & ~above));
  f64x8 n = t * 0x1.71547652b82fep0 + round;  // has the integer n in its lowest bits
  const f64x8 power = (f64x8)(((i64x8)n + 1023) << 52);
  n -= round;
  f64x8 r = __builtin_elementwise_fma(n, zero - 0x1.62e42fefa38p-1, t);
  r = __builtin_elementwise_fma(n, zero - 0x1.ef35793c7673p-45, r);
  f64x8 p = zero + 1.0 / 6227020800;
  const double coefficients[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2};
  UNROLL for (int i = 0; i < 11; i++) p = __builtin_elementwise_fma(p, r, zero + coefficients[i]);
  p = __builtin_elementwise_fma(p * r, r, r);
  p = __builtin_elementwise_fma(p, power, power - 1);
  return __builtin_elementwise_copysign(CONVERT(p / (p + 2) * limit, f32x8), x);
}

// soft_cap replaces each x by limit·tanh(x/limit).
void LEVEL(soft_cap)(const struct soft_cap_args *a) {
  int64_t i = 0;
  ROLLED for (; i + 8 <= a->n; i += 8) STORE(f32x8, a->x + i, soft_cap8(LOAD(f32x8, a->x + i), a->limit));
  ROLLED for (; i < a->n; i++) a->x[i] = soft_cap8((f32x8){a->x[i]}, a->limit)[0];
}

// softmax turns scores into weights, in place.
void LEVEL(softmax)(const struct softmax_args *a) {
  f32x16 best = splat16(-__builtin_inff());
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) best = __builtin_elementwise_max(best, LOAD(f32x16, a->x + i));
  float top = max_of(best);
  for (int64_t j = i; j < a->n; j++) top = a->x[j] > top ? a->x[j] : top;
  f32x16 sum = splat16(0);
  for (i = 0; i + 16 <= a->n; i += 16) {
    const f32x16 e = exp16(LOAD(f32x16, a->x + i) - top);
    STORE(f32x16, a->x + i, e);
    sum += e;
  }
  float total = sum_of(sum);
  ROLLED for (int64_t j = i; j < a->n; j++) {
    a->x[j] = exp16(splat16(a->x[j] - top))[0];
    total += a->x[j];
  }
  const float scale = 1 / total;
  for (i = 0; i + 16 <= a->n; i += 16) STORE(f32x16, a->x + i, LOAD(f32x16, a->x + i) * scale);
  ROLLED for (; i < a->n; i++) a->x[i] *= scale;
}

// highest finds the highest value and adds up exp(x-highest) over all values. A NaN is never the
// highest.
void LEVEL(highest)(struct highest_args *a) {
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
  a->value = top;
  if (bad) {
    a->sum = __builtin_inf();
    return;
  }
  double total = 0;
  for (i = 0; i + 16 <= a->n;) {
    // A vector of sums has so few terms that its rounding error is negligible.
    f32x16 sum = splat16(0);
    for (const int64_t end = i + 1024; i < end && i + 16 <= a->n; i += 16) sum += exp16(LOAD(f32x16, a->x + i) - top);
    total += sum_of(sum);
  }
  ROLLED for (; i < a->n; i++) total += exp16(splat16(a->x[i] - top))[0];
  a->sum = total;
}

// rotate turns the pairs of each head of src by their angles; dst may be src.
void LEVEL(rotate)(const struct rotate_args *a) {
  for (int64_t h = 0; h < a->heads; h++) {
    float *dst = a->dst + h * a->dst_stride;
    const float *src = a->src + h * a->src_stride;
    int64_t i = 0;
    if (a->halves) {
      const int64_t half = a->n / 2;
      for (; i + 16 <= half; i += 16) {
        const f32x16 x = LOAD(f32x16, src + i), y = LOAD(f32x16, src + half + i);
        const f32x16 c = LOAD(f32x16, a->angles + i), s = LOAD(f32x16, a->angles + half + i);
        STORE(f32x16, dst + i, fma16(x, c, -(y * s)));
        STORE(f32x16, dst + half + i, fma16(x, s, y * c));
      }
      ROLLED for (; i < half; i++) {
        const float c = a->angles[i], s = a->angles[half + i], x = src[i], y = src[half + i];
        dst[i] = x * c - y * s;
        dst[half + i] = x * s + y * c;
      }
      continue;
    }
    for (; i + 16 <= a->n; i += 16) {
      const f32x16 x = LOAD(f32x16, src + i), turn = LOAD(f32x16, a->angles + i);
      const f32x16 other = __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
      const f32x16 cosine = __builtin_shufflevector(turn, turn, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14);
      const f32x16 sine = __builtin_shufflevector(turn, -turn, 17, 1, 19, 3, 21, 5, 23, 7, 25, 9, 27, 11, 29, 13, 31, 15);
      STORE(f32x16, dst + i, fma16(x, cosine, other * sine));
    }
    ROLLED for (; i < a->n; i += 2) {
      const float c = a->angles[i], s = a->angles[i + 1], x = src[i], y = src[i + 1];
      dst[i] = x * c - y * s;
      dst[i + 1] = x * s + y * c;
    }
  }
}

// TAP is weight j of each of 16 columns. w has the columns' weights, four for each.
#define EIGHT(a, b, j) __builtin_shufflevector(a, b, j, j + 4, j + 8, j + 12, j + 16, j + 20, j + 24, j + 28)
#define TAP(j)                                                                                                       \
  __builtin_shufflevector(EIGHT(w[0], w[1], j), EIGHT(w[2], w[3], j), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// convolve adds the products of four rows with the weights of their columns to out.
void LEVEL(convolve)(const struct convolve_args *a) {
  int64_t i = 0;
  ROLLED for (; i + 16 <= a->n; i += 16) {
    f32x16 w[4];
    UNROLL for (int t = 0; t < 4; t++) w[t] = LOAD(f32x16, a->w + 4 * i + 16 * t);
    f32x16 y = LOAD(f32x16, a->out + i);
    y += LOAD(f32x16, a->x0 + i) * TAP(0);
    y += LOAD(f32x16, a->x1 + i) * TAP(1);
    y += LOAD(f32x16, a->x2 + i) * TAP(2);
    y += LOAD(f32x16, a->x3 + i) * TAP(3);
    STORE(f32x16, a->out + i, y);
  }
  ROLLED for (; i < a->n; i++) {
    const float *w = a->w + 4 * i;
    a->out[i] = a->out[i] + a->x0[i] * w[0] + a->x1[i] * w[1] + a->x2[i] * w[2] + a->x3[i] * w[3];
  }
}

// DELTA_VECTORS is the number of vectors of columns that are changed at once. With AVX-512 they are
// whole rows of the usual matrices, so that memory is read in its order.
#define DELTA_VECTORS (LANES == 16 ? 8 : 4)

// delta_tile changes T vectors of columns of a matrix from column c on, and reads them. The matrix
// is read twice, the second time from the second-level cache. Meanwhile, the memory behind the
// matrix is fetched, which has the next head's.
INLINE void delta_tile(const struct delta_args *a, const int64_t c, const int T) {
  const float decay = (float)a->decay, beta = (float)a->beta;
  float *s = a->s + c;
  f32x16 sum[T], u[T];
  UNROLL for (int t = 0; t < T; t++) sum[t] = splat16(0);
  ROLLED for (int64_t i = 0; i < a->keys; i++) {
    UNROLL for (int t = 0; t < T; t++) {
      sum[t] = fma16(splat16(a->k[i]), LOAD(f32x16, s + i * a->values + 16 * t) * splat16(decay), sum[t]);
    }
  }
  UNROLL for (int t = 0; t < T; t++) {
    u[t] = splat16(beta) * (LOAD(f32x16, a->v + c + 16 * t) - sum[t]);
    sum[t] = splat16(0);
  }
  ROLLED for (int64_t i = 0; i < a->keys; i++) {
    float *row = s + i * a->values;
    UNROLL for (int t = 0; t < T; t++) {
      __builtin_prefetch(row + a->keys * a->values + 16 * t, 0, 2);
      const f32x16 x = fma16(splat16(a->k[i]), u[t], LOAD(f32x16, row + 16 * t) * splat16(decay));
      STORE(f32x16, row + 16 * t, x);
      sum[t] = fma16(splat16(a->q[i]), x, sum[t]);
    }
  }
  UNROLL for (int t = 0; t < T; t++) STORE(f32x16, a->out + c + 16 * t, sum[t]);
}

// delta applies a row of the gated delta rule to a matrix: s = decay*s, then s += k*beta*(v - k*s),
// then out = q*s.
void LEVEL(delta)(const struct delta_args *a) {
  int64_t c = 0;
  ROLLED for (; c + 16 * DELTA_VECTORS <= a->values; c += 16 * DELTA_VECTORS) delta_tile(a, c, DELTA_VECTORS);
  ROLLED for (; c + 16 <= a->values; c += 16) delta_tile(a, c, 1);
  ROLLED for (; c < a->values; c++) {
    float *s = a->s + c;
    float known = 0, out = 0;
    ROLLED for (int64_t i = 0; i < a->keys; i++) {
      s[i * a->values] *= (float)a->decay;
      known = __builtin_fmaf(a->k[i], s[i * a->values], known);
    }
    const float u = (float)a->beta * (a->v[c] - known);
    ROLLED for (int64_t i = 0; i < a->keys; i++) {
      s[i * a->values] = __builtin_fmaf(a->k[i], u, s[i * a->values]);
      out = __builtin_fmaf(a->q[i], s[i * a->values], out);
    }
    a->out[c] = out;
  }
}
