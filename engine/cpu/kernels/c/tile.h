// Memory of products with tiles, and their configuration.
#pragma once
#include "args.h"

#if AMX

// GROUPS groups of weights, SLICE blocks of each, are unpacked at once. They stay in the
// first-level cache while MAX_TILES tiles of activations are multiplied with them.
#define GROUPS 2
#define SLICE 4
#define MAX_TILES 4

// unpacked is a block of 16 rows of weights. Row j of q has two columns of each row of weights,
// side by side.
struct unpacked {
  uint16_t q[16][32];  // bfloat16
  f32v d[2], m[2];
};

struct tile_memory {
  f32v acc[MAX_TILES][GROUPS][TILE_ROWS];
  struct unpacked unpacked[GROUPS][SLICE];
};
_Static_assert(sizeof(struct tile_memory) == 18 << 10, "TileMemory in args.go differs");

// configure sets the shapes of the tiles: 0 and 1 are sums, 2 and 3 activations, 4 and 5 weights.
INLINE void configure(int64_t rows, const int scales) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } c = {.palette = 1};
  UNROLL for (int i = 0; i < 6; i++) {
    c.row_bytes[i] = i == 2 || i == 3 ? 64 / scales : 64;
    c.rows[i] = i < 4 ? rows : 16 / scales;
  }
  _tile_loadconfig(&c);
}

// scale adds the products of half h of a block with four rows of a tile, from row from on. c has
// the products.
INLINE void scale(f32v *y, const struct tile *x, const struct unpacked *u, const float (*c)[16], const int h, const int from, const int scales, const int minima) {
  UNROLL for (int t = from; t < from + 4; t++) {
    if (minima) y[t] = fma_v(u->m[h], splat(scales == 1 ? x->sum[t] : x->sums[h][t]), y[t]);
    y[t] = fma_v(*(const f32v *)c[t], u->d[h] * x->d[t], y[t]);
  }
}

// Step i of a slice is half i%scales of block i/scales, or block i if a block has one scale.
// MULTIPLY computes its products in tile C, and ADD adds them to the sums.
#define MULTIPLY(i, C)                                                                   \
  {                                                                                      \
    const struct tile *z = (const struct tile *)(x + (i) / scales * TILE_BYTES(parts));  \
    const struct unpacked *w = u + (i) / scales;                                         \
    const int h = (i) % scales;                                                          \
    _tile_loadd(4, w->q[h * 8], 64);                                                     \
    _tile_zero(C);                                                                       \
    _tile_loadd(2, z->q[0][0] + 16 * h, 64);                                             \
    _tile_dpbf16ps(C, 2, 4);                                                             \
    if (parts == 2) {                                                                    \
      _tile_loadd(3, z->q[parts - 1][0] + 16 * h, 64);                                   \
      _tile_dpbf16ps(C, 3, 4);                                                           \
    }                                                                                    \
  }
#define ADD(i, C)                                                                        \
  {                                                                                      \
    const struct tile *z = (const struct tile *)(x + (i) / scales * TILE_BYTES(parts));  \
    const struct unpacked *w = u + (i) / scales;                                         \
    const int h = (i) % scales;                                                          \
    scale(y, z, w, c[C], h, 0, scales, minima);                                          \
    if (rows > 4) scale(y, z, w, c[C], h, 4, scales, minima);                            \
    if (rows > 8) scale(y, z, w, c[C], h, 8, scales, minima);                            \
    if (rows > 12) scale(y, z, w, c[C], h, 12, scales, minima);                          \
  }

// slice adds the products of some blocks of a group with a tile of each to acc. n is the number of
// blocks times scales. While the products of two steps are computed, those of the step before them
// are added.
INLINE void slice(f32v acc[TILE_ROWS], const uint8_t *x, const struct unpacked *u, const int64_t n, const int64_t rows, const int parts, const int scales, const int minima) {
  float c[2][TILE_ROWS][16] __attribute__((aligned(64)));
  f32v y[TILE_ROWS];
  UNROLL for (int t = 0; t < TILE_ROWS; t++) y[t] = acc[t];
  MULTIPLY(0, 0)
  ROLLED for (int64_t i = 0; i < n; i += 2) {
    if (i + 1 < n) MULTIPLY(i + 1, 1)
    _tile_stored(0, c[0], 64);
    if (i > 0) ADD(i - 1, 1)
    if (i + 2 < n) MULTIPLY(i + 2, 0)
    if (i + 1 < n) _tile_stored(1, c[1], 64);
    ADD(i, 0)
  }
  if (n % 2 == 0) ADD(n - 1, 1)
  UNROLL for (int t = 0; t < TILE_ROWS; t++) acc[t] = y[t];
}

// The variants of slice are functions, since each has several kilobytes of code.
#define SLICE_OF__(parts, scales, minima) slice_##parts##scales##minima
#define SLICE_OF(parts, scales, minima) SLICE_OF__(parts, scales, minima)
#define VARIANT(parts, scales, minima)                                                                                                                     \
  static __attribute__((noinline)) void SLICE_OF(parts, scales, minima)(f32v *acc, const uint8_t *x, const struct unpacked *u, int64_t n, int64_t rows) {  \
    slice(acc, x, u, n, rows, parts, scales, minima);                                                                                                      \
  }
VARIANT(1, 1, 0)
VARIANT(2, 1, 0)
VARIANT(2, 1, 1)
VARIANT(2, 2, 0)
VARIANT(2, 2, 1)
VARIANT(1, 1, 1)
VARIANT(1, 2, 0)
VARIANT(1, 2, 1)
#undef VARIANT
#undef MULTIPLY
#undef ADD
#endif
