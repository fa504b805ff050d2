// A product of packed weights with 8-bit activations, for one weight type. The file that includes
// this one defines
//   NAME          the type's name
//   BLOCK_BYTES   bytes of a block of 32 weights in a group of 16 rows
//   SUPER_BYTES   bytes in front of every eighth block; 0 if the type has no blocks of 256
//   struct NAME_block, NAME_load and NAME_add, which unpack a block for LANES rows and add its product
// A result is the sum over the blocks, in their order. The order is the same in every tile, so a
// result does not depend on the other rows.
#define PART__(name, part) name##_##part
#define PART_(name, part) PART__(name, part)
#define PART(part) PART_(NAME, part)

INLINE void PART(tile)(const struct product_args *a, const uint8_t *w, int64_t r, int64_t column, int lane, const int T) {
  const struct block *x[T];
  f32v acc[T];
  UNROLL for (int t = 0; t < T; t++) {
    x[t] = (const struct block *)a->x + a->in[r + t];
    acc[t] = splat(0);
  }
  const uint8_t *super = w;
  ROLLED for (int64_t k = 0; k < a->blocks; k++) {
    if (SUPER_BYTES > 0 && k % 8 == 0) {
      super = w;
      w += SUPER_BYTES;
    }
#if LANES >= 8 // not on NEON, where the gain of prefetching was not measured
    // A tile with more rows reads weights more slowly, and the processor then prefetches fewer
    // weights by itself.
    UNROLL for (int at = 0; at < BLOCK_BYTES; at += 64) __builtin_prefetch(w + at + 4096, 0, 3);
#endif
    const struct PART(block) b = PART(load)(w, super, lane);
    UNROLL for (int t = 0; t < T; t++) {
      acc[t] = PART(add)(acc[t], &b, x[t] + k);
    }
    w += BLOCK_BYTES;
  }
  UNROLL for (int t = 0; t < T; t++) {
    float *out = a->out + a->at[r + t] + column + lane;
    if (a->factors) acc[t] = fma_v(acc[t], splat(a->factors[r + t]), LOAD(f32v, out));
    STORE(f32v, out, acc[t]);
  }
}

// rows computes a tile of T rows with all groups of weights. T is so small that the activations
// stay in the first-level cache.
INLINE void PART(rows)(const struct product_args *a, int64_t r, const int T) {
  const int64_t size = a->blocks * BLOCK_BYTES + (a->blocks / 8) * SUPER_BYTES;
  ROLLED for (int64_t g = 0; g < a->groups; g++) {
    ROLLED for (int lane = 0; lane < 16; lane += LANES) PART(tile)(a, a->w + g * size, r, 16 * g, lane, T);
  }
}

// TILES runs tiles of T rows. It stops before a tile that would leave a single row, because one row
// takes about as long as two.
#define TILES(T) \
  for (; r + T <= a->rows && r + T + 1 != a->rows; r += T) PART(rows)(a, r, T)

void LEVEL(PART(product))(const struct product_args *a) {
  int64_t r = 0;
#if LANES == 16
  TILES(16);
  TILES(8);
  TILES(7); // without tiles of 5 to 7 rows, 5 to 7 rows would take longer than 8
  TILES(6);
  TILES(5);
#endif
  TILES(4);
  TILES(3);
  TILES(2);
  if (r < a->rows) PART(rows)(a, r, 1);
}

#undef TILES
#undef NAME
#undef BLOCK_BYTES
#undef SUPER_BYTES
