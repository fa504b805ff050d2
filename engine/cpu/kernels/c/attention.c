// Attention of a tile of queries over a run of cached positions. Keys and values are rows of float32.
#include "args.h"
#include "math.h"

// A score is 16 sums over every sixteenth value, joined as sum_of does; values beyond whole sixteens are added last.
INLINE void scores_tile(const struct scores_args *a, int64_t query, int64_t position, const int Q, const int P) {
  f32x16 acc[Q][P];
  const float *q[Q], *k[P];
  UNROLL for (int i = 0; i < Q; i++) q[i] = a->q + a->at[query + i];
  UNROLL for (int j = 0; j < P; j++) k[j] = a->k + (position + j) * a->stride;
  UNROLL for (int i = 0; i < Q; i++) UNROLL for (int j = 0; j < P; j++) acc[i][j] = splat16(0);
  int64_t d = 0;
  ROLLED for (; d + 16 <= a->dims; d += 16) {
    f32x16 x[P];
    UNROLL for (int j = 0; j < P; j++) x[j] = LOAD(f32x16, k[j] + d);
    UNROLL for (int i = 0; i < Q; i++) {
      const f32x16 y = LOAD(f32x16, q[i] + d);
      UNROLL for (int j = 0; j < P; j++) acc[i][j] = fma16(x[j], y, acc[i][j]);
    }
  }
  UNROLL for (int i = 0; i < Q; i++) {
    float *out = a->out + (query + i) * a->out_stride + position;
    f32x4 sums;
    if (P == 4) {
      sums = sums4(acc[i][0], acc[i][1 % P], acc[i][2 % P], acc[i][3 % P]);
    } else {
      sums = (f32x4){sum_of(acc[i][0])};
    }
    UNROLL for (int j = 0; j < P; j++) {
      ROLLED for (int64_t e = d; e < a->dims; e++) sums[j] = __builtin_fmaf(q[i][e], k[j][e], sums[j]);
    }
    sums *= (float)a->scale;
    UNROLL for (int j = 0; j < P; j++) out[j] = sums[j];
  }
}

void LEVEL(scores)(const struct scores_args *a) {
  int64_t p = 0;
  for (; p + 4 <= a->positions; p += 4) {
    int64_t q = 0;
    for (; q + QUERIES <= a->queries; q += QUERIES) scores_tile(a, q, p, QUERIES, 4);
    for (; q < a->queries; q++) scores_tile(a, q, p, 1, 4);
  }
  for (; p < a->positions; p++) {
    for (int64_t q = 0; q < a->queries; q++) scores_tile(a, q, p, 1, 1);
  }
}

// values adds the values, weighted, in order of position.
INLINE void values_tile(const struct values_args *a, int64_t query, int64_t column, const int Q, const int C) {
  f32x16 acc[Q][C];
  float *out[Q];
  const float *weights = a->weights + query * a->weights_stride, *v = a->v + column;
  UNROLL for (int i = 0; i < Q; i++) {
    out[i] = a->out + a->at[query + i] + column;
    UNROLL for (int c = 0; c < C; c++) acc[i][c] = LOAD(f32x16, out[i] + 16 * c);
  }
  ROLLED for (int64_t p = 0; p < a->positions; p++, v += a->stride) {
    f32x16 x[C];
    UNROLL for (int c = 0; c < C; c++) x[c] = LOAD(f32x16, v + 16 * c);
    UNROLL for (int i = 0; i < Q; i++) {
      const f32x16 weight = splat16(weights[i * a->weights_stride + p]);
      UNROLL for (int c = 0; c < C; c++) acc[i][c] = fma16(x[c], weight, acc[i][c]);
    }
  }
  UNROLL for (int i = 0; i < Q; i++) UNROLL for (int c = 0; c < C; c++) STORE(f32x16, out[i] + 16 * c, acc[i][c]);
}

void LEVEL(values)(const struct values_args *a) {
  int64_t c = 0;
  for (; c + 16 * COLUMNS <= a->dims; c += 16 * COLUMNS) {
    int64_t q = 0;
    for (; q + QUERIES <= a->queries; q += QUERIES) values_tile(a, q, c, QUERIES, COLUMNS);
    for (; q < a->queries; q++) values_tile(a, q, c, 1, COLUMNS);
  }
  for (; c + 16 <= a->dims; c += 16) {
    int64_t q = 0;
    for (; q + QUERIES <= a->queries; q += QUERIES) values_tile(a, q, c, QUERIES, 1);
    for (; q < a->queries; q++) values_tile(a, q, c, 1, 1);
  }
  for (; c < a->dims; c++) {
    ROLLED for (int64_t q = 0; q < a->queries; q++) {
      float *out = a->out + a->at[q] + c;
      ROLLED for (int64_t p = 0; p < a->positions; p++) {
        *out = __builtin_fmaf(a->v[p * a->stride + c], a->weights[q * a->weights_stride + p], *out);
      }
    }
  }
}
