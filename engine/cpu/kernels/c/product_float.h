// A product of packed float weights with float activations, for one weight type. The file that
// includes this one defines NAME, the type's name; SIZE, the bytes of a weight; and NAME_load,
// which reads LANES weights as floats. A result is the sum over the even columns plus the sum over
// the odd columns. The order is the same in every tile, so a result does not depend on the other
// rows.
#define PART__(name, part) name##_##part
#define PART_(name, part) PART__(name, part)
#define PART(part) PART_(NAME, part)

#define VECTORS (16 / LANES)  // number of vectors in a column of a group

INLINE void PART(tile)(const struct product_args *a, const uint8_t *w, int64_t r, int64_t column, const int T) {
  const int64_t n = a->blocks;
  const float *x[T];
  f32v acc[2][T][VECTORS];
  UNROLL for (int t = 0; t < T; t++) {
    x[t] = (const float *)a->x + a->in[r + t];
    UNROLL for (int v = 0; v < VECTORS; v++) acc[0][t][v] = acc[1][t][v] = splat(0);
  }
  int64_t k = 0;
  ROLLED for (; k + 4 <= n; k += 4, w += 4 * 16 * SIZE) {
    // On NEON, weights are prefetched only for one row, because the gain for more rows was not
    // measured.
    if (T == 1 || LANES >= 8) UNROLL for (int at = 0; at < 64 * SIZE; at += 64) __builtin_prefetch(w + at + 4096, 0, 3);
    UNROLL for (int i = 0; i < 4; i++) {
      f32v b[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) b[v] = PART(load)(w + SIZE * (16 * i + LANES * v));
      UNROLL for (int t = 0; t < T; t++) {
        const f32v by = one_of_four(x[t] + k, i);
        UNROLL for (int v = 0; v < VECTORS; v++) acc[i % 2][t][v] = fma_v(b[v], by, acc[i % 2][t][v]);
      }
    }
  }
  UNROLL for (int i = 0; i < 3; i++) {
    if (k + i >= n) break;
    UNROLL for (int v = 0; v < VECTORS; v++) {
      const f32v b = PART(load)(w + SIZE * (16 * i + LANES * v));
      UNROLL for (int t = 0; t < T; t++) acc[i % 2][t][v] = fma_v(b, splat(x[t][k + i]), acc[i % 2][t][v]);
    }
  }
  UNROLL for (int t = 0; t < T; t++) {
    float *out = a->out + a->at[r + t] + column;
    UNROLL for (int v = 0; v < VECTORS; v++, out += LANES) {
      f32v sum = acc[0][t][v] + acc[1][t][v];
      if (a->factors) sum = fma_v(sum, splat(a->factors[r + t]), LOAD(f32v, out));
      STORE(f32v, out, sum);
    }
  }
}

// rows computes a tile of T rows with all groups of weights. For float weights, a->blocks is the
// number of columns.
INLINE void PART(rows)(const struct product_args *a, int64_t r, const int T) {
  ROLLED for (int64_t g = 0; g < a->groups; g++) PART(tile)(a, a->w + g * a->blocks * 16 * SIZE, r, 16 * g, T);
}

// TILES runs tiles of T rows. The largest T is the number of rows whose sums fit into registers.
// TILES stops before a tile that would leave a single row, because one row takes about as long as
// two.
#define TILES(T) \
  for (; r + T <= a->rows && r + T + 1 != a->rows; r += T) { \
    PART(rows)(a, r, T); \
    __asm__("" : "+r"(r)); /* otherwise the compiler computes the last r by a 128-bit division, for which it calls a library function */ \
  }

void LEVEL(PART(product))(const struct product_args *a) {
  int64_t r = 0;
#if LANES == 16
  TILES(8);
  TILES(7);
  TILES(6);
  TILES(5);
  TILES(4);
#endif
#if LANES >= 8
  TILES(3);
#endif
  TILES(2);
  for (; r < a->rows; r++) PART(rows)(a, r, 1);
}

#undef TILES
#undef VECTORS
#undef NAME
#undef SIZE
