// Attention over keys and values of one type. The file that includes this one defines NAME(x), the
// name of kernel x for the type; SIZE, the bytes of a cached value; CACHED, which reads 16 values;
// and CACHED_ONE, which reads one value.

// scores_tile computes the scores of Q queries at P positions. A score is accumulated in 16 sums,
// each over every sixteenth value, which sum_of then adds. If dims is not a multiple of 16, the
// remaining values are added last.
INLINE void NAME(scores_tile)(const struct scores_args *a, int64_t query, int64_t position, const int Q, const int P) {
  f32x16 acc[Q][P];
  const float *q[Q];
  const uint8_t *k[P];
  UNROLL for (int i = 0; i < Q; i++) q[i] = a->q + a->at[query + i];
  UNROLL for (int j = 0; j < P; j++) k[j] = (const uint8_t *)a->k + SIZE * (position + j) * a->stride;
  UNROLL for (int i = 0; i < Q; i++) UNROLL for (int j = 0; j < P; j++) acc[i][j] = splat16(0);
  int64_t d = 0;
  ROLLED for (; d + 16 <= a->dims; d += 16) {
    f32x16 x[P];
    UNROLL for (int j = 0; j < P; j++) x[j] = CACHED(k[j] + SIZE * d);
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
      ROLLED for (int64_t e = d; e < a->dims; e++) sums[j] = __builtin_fmaf(q[i][e], CACHED_ONE(k[j] + SIZE * e), sums[j]);
    }
    sums *= (float)a->scale;
    UNROLL for (int j = 0; j < P; j++) out[j] = sums[j];
  }
}

void LEVEL(NAME(scores))(const struct scores_args *a) {
  fetch(a->next, a->next_bytes);
  int64_t p = 0;
  for (; p + 4 <= a->positions; p += 4) {
    int64_t q = 0;
    for (; q + QUERIES <= a->queries; q += QUERIES) NAME(scores_tile)(a, q, p, QUERIES, 4);
#if QUERIES == 4
    if (q + 3 == a->queries) {
      NAME(scores_tile)(a, q, p, 3, 4);
      continue;
    }
    if (q + 2 == a->queries) {
      NAME(scores_tile)(a, q, p, 2, 4);
      continue;
    }
#endif
    for (; q < a->queries; q++) NAME(scores_tile)(a, q, p, 1, 4);
  }
  for (; p < a->positions; p++) {
    for (int64_t q = 0; q < a->queries; q++) NAME(scores_tile)(a, q, p, 1, 1);
  }
}

// values_tile adds the weighted values of all positions to the results, in order of position.
INLINE void NAME(values_tile)(const struct values_args *a, int64_t query, int64_t column, const int Q, const int C) {
  f32x16 acc[Q][C];
  float *out[Q];
  const float *weights = a->weights + query * a->weights_stride;
  const uint8_t *v = (const uint8_t *)a->v + SIZE * column;
  UNROLL for (int i = 0; i < Q; i++) {
    out[i] = a->out + a->at[query + i] + column;
    UNROLL for (int c = 0; c < C; c++) acc[i][c] = LOAD(f32x16, out[i] + 16 * c);
  }
  ROLLED for (int64_t p = 0; p < a->positions; p++, v += SIZE * a->stride) {
    f32x16 x[C];
    UNROLL for (int c = 0; c < C; c++) x[c] = CACHED(v + SIZE * 16 * c);
    UNROLL for (int i = 0; i < Q; i++) {
      const f32x16 weight = splat16(weights[i * a->weights_stride + p]);
      UNROLL for (int c = 0; c < C; c++) acc[i][c] = fma16(x[c], weight, acc[i][c]);
    }
  }
  UNROLL for (int i = 0; i < Q; i++) UNROLL for (int c = 0; c < C; c++) STORE(f32x16, out[i] + 16 * c, acc[i][c]);
}

// values_rows computes all columns of Q queries, C vectors of 16 columns at a time.
INLINE void NAME(values_rows)(const struct values_args *a, int64_t query, const int Q, const int C) {
  int64_t c = 0;
  ROLLED for (; c + 16 * C <= a->dims; c += 16 * C) NAME(values_tile)(a, query, c, Q, C);
  ROLLED for (; c + 16 <= a->dims; c += 16) NAME(values_tile)(a, query, c, Q, 1);
  ROLLED for (; c < a->dims; c++) {
    ROLLED for (int64_t q = query; q < query + Q; q++) {
      float *out = a->out + a->at[q] + c;
      const uint8_t *v = (const uint8_t *)a->v + SIZE * c;
      ROLLED for (int64_t p = 0; p < a->positions; p++, v += SIZE * a->stride) {
        *out = __builtin_fmaf(CACHED_ONE(v), a->weights[q * a->weights_stride + p], *out);
      }
    }
  }
}

void LEVEL(NAME(values))(const struct values_args *a) {
  fetch(a->next, a->next_bytes);
  int64_t q = 0;
  ROLLED for (; q + 4 <= a->queries; q += 4) NAME(values_rows)(a, q, 4, COLUMNS);
  if (q + 3 == a->queries) {
    NAME(values_rows)(a, q, 3, COLUMNS);
    return;
  }
  if (q + 2 == a->queries) {
    NAME(values_rows)(a, q, 2, COLUMNS == 1 ? 2 : COLUMNS);
    return;
  }
  ROLLED for (; q < a->queries; q++) NAME(values_rows)(a, q, 1, 4);
}

#undef NAME
#undef SIZE
#undef CACHED
#undef CACHED_ONE
