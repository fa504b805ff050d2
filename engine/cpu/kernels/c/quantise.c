// Quantised activations.
#include "args.h"
#include "math.h"

// store_integers writes half of a block's integers; half is 0 or 1.
INLINE void store_integers(struct block *b, i32x16 q, const int half) {
#if WORDS
  const s16x16 x = CONVERT(q, s16x16);
  STORE(s16x16, b->q + 16 * half, __builtin_shufflevector(x, x, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
#elif PARTS == 2
  const i32x16 high = (q + 128) >> 8;
  STORE(s8x16, b->q[0] + 16 * half, CONVERT(high, s8x16));
  STORE(s8x16, b->q[1] + 16 * half, CONVERT(q - (high << 8), s8x16));
#else
  STORE(s8x16, b->q[0] + 16 * half, CONVERT(q, s8x16));
#endif
}

#if LANES == 16
// store_bfloats is store_integers for a row of a tile.
INLINE void store_bfloats(struct tile *z, int64_t row, i32x16 q, const int half) {
  q = __builtin_shufflevector(q, q, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
#if PARTS == 2
  const i32x16 high = (q + 128) >> 8;
  STORE(u16x16, z->q[0][row] + 16 * half, bfloats(CONVERT(CONVERT(high, s8x16), i32x16) << 8));
  q -= high << 8;
#endif
  STORE(u16x16, z->q[PARTS - 1][row] + 16 * half, bfloats(CONVERT(CONVERT(q, s8x16), i32x16)));
}
#else
#define store_bfloats(z, row, q, half)
#endif

// quantise_blocks converts T blocks, at most four, to blocks or to one row of tiles. The maxima
// and the sums of all T blocks are computed together; see FOLD4.
INLINE void quantise_blocks(const struct quantise_args *a, int64_t k, const int T, const int IN_TILE) {
  f32x16 x[T][2], size[T];
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int i = 0; i < 2; i++) x[t][i] = LOAD(f32x16, a->x + 32 * (k + t) + 16 * i);
    size[t] = __builtin_elementwise_max(__builtin_elementwise_abs(x[t][0]), __builtin_elementwise_abs(x[t][1]));
  }
  const f32x4 d = max4(size[0], size[1 % T], size[2 % T], size[3 % T]) * (1.0f / MAX_INTEGER);
  const f32x4 inverse = (f32x4)((i32x4)(1 / d) & (d > 0x1p-120f));
  i32x16 q[T][2];
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int i = 0; i < 2; i++) {
      q[t][i] = CONVERT(__builtin_elementwise_roundeven(x[t][i] * inverse[t]), i32x16);
      if (IN_TILE) {
        store_bfloats(tile_at(a->out, k + t), a->row, q[t][i], i);
      } else {
        store_integers((struct block *)a->out + k + t, q[t][i], i);
      }
    }
  }
  i32x4 sums[2];
  UNROLL for (int i = 0; i < 2; i++) sums[i] = totals4(q[0][i], q[1 % T][i], q[2 % T][i], q[3 % T][i]);
  const i32x4 sum = sums[0] + sums[1];
  const f32x4 scaled = d * CONVERT(sum, f32x4);
  const f32x4 scaled_sums[2] = {d * CONVERT(sums[0], f32x4), d * CONVERT(sums[1], f32x4)};
  UNROLL for (int t = 0; t < T; t++) {
    if (IN_TILE) {
      struct tile *z = tile_at(a->out, k + t);
      z->d[a->row] = d[t];
      z->sum[a->row] = scaled[t];
      UNROLL for (int i = 0; i < 2; i++) z->sums[i][a->row] = scaled_sums[i][t];
      continue;
    }
    struct block *b = (struct block *)a->out + k + t;
    b->d = d[t];
    b->sum = scaled[t];
    b->minus8 = -8 * sum[t];
    b->minus128 = -128 * sum[t];
    UNROLL for (int i = 0; i < 2; i++) {
      b->sums[i] = scaled_sums[i][t];
      b->minus32[i] = -32 * sums[i][t];
    }
  }
}

// quantise converts a row to blocks of 32 values of PRECISION bits. The value of largest magnitude
// in a block becomes MAX_INTEGER or -MAX_INTEGER.
void LEVEL(QUANTISE)(const struct quantise_args *a) {
  int64_t k = 0;
  ROLLED for (; k + 4 <= a->blocks; k += 4) quantise_blocks(a, k, 4, 0);
  ROLLED for (; k < a->blocks; k++) quantise_blocks(a, k, 1, 0);
}

#if LANES == 16
// quantise_tiles is quantise for one row of tiles.
void LEVEL(QUANTISE_TILES)(const struct quantise_args *a) {
  int64_t k = 0;
  ROLLED for (; k + 4 <= a->blocks; k += 4) quantise_blocks(a, k, 4, 1);
  ROLLED for (; k < a->blocks; k++) quantise_blocks(a, k, 1, 1);
}
#endif
