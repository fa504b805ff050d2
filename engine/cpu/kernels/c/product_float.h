// A product of packed float weights with float activations, for one weight type. The includer defines NAME, SIZE, the
// bytes of a weight, and NAME_load. A result is four sums over every fourth column, joined at the end.
#define PART__(name, part) name##_##part
#define PART_(name, part) PART__(name, part)
#define PART(part) PART_(NAME, part)

INLINE void PART(tile)(const struct product_args *a, const uint8_t *w, int64_t r, int64_t column, int lane, const int T) {
  const int64_t n = a->blocks;
  const float *x[T];
  f32v acc[T][4];
  UNROLL for (int t = 0; t < T; t++) {
    x[t] = (const float *)a->x + a->in[r + t];
    UNROLL for (int i = 0; i < 4; i++) acc[t][i] = splat(0);
  }
  w += SIZE * lane;
  int64_t k = 0;
  ROLLED for (; k + 4 <= n; k += 4, w += 4 * 16 * SIZE) {
    if (T == 1 && lane == 0) {
      UNROLL for (int at = 0; at < 64 * SIZE; at += 64) __builtin_prefetch(w + at + 4096, 0, 3);
    }
    UNROLL for (int i = 0; i < 4; i++) {
      const f32v v = PART(load)(w + 16 * SIZE * i);
      UNROLL for (int t = 0; t < T; t++) acc[t][i] = fma_v(v, splat(x[t][k + i]), acc[t][i]);
    }
  }
  ROLLED for (; k < n; k++, w += 16 * SIZE) {
    const f32v v = PART(load)(w);
    UNROLL for (int t = 0; t < T; t++) acc[t][0] = fma_v(v, splat(x[t][k]), acc[t][0]);
  }
  UNROLL for (int t = 0; t < T; t++) {
    float *out = a->out + a->at[r + t] + column + lane;
    f32v sum = (acc[t][0] + acc[t][1]) + (acc[t][2] + acc[t][3]);
    if (a->factors) sum = fma_v(sum, splat(a->factors[r + t]), LOAD(f32v, out));
    STORE(f32v, out, sum);
  }
}

// Here blocks counts single columns.
INLINE void PART(rows)(const struct product_args *a, int64_t r, const int T) {
  ROLLED for (int64_t g = 0; g < a->groups; g++) {
    const uint8_t *w = a->w + g * a->blocks * 16 * SIZE;
    ROLLED for (int lane = 0; lane < 16; lane += LANES) PART(tile)(a, w, r, 16 * g, lane, T);
  }
}

void LEVEL(PART(product))(const struct product_args *a) {
  int64_t r = 0;
#if LANES != 8
  for (; r + 4 <= a->rows; r += 4) PART(rows)(a, r, 4);
#endif
  for (; r + 2 <= a->rows; r += 2) PART(rows)(a, r, 2);
  for (; r < a->rows; r++) PART(rows)(a, r, 1);
}

#undef NAME
#undef SIZE
