// Products of weights of 16 bits (F16 and BF16) with activations of 16 bits, compiled as one unit.
//
// Both are integers of at most 15 bits and a sign, with one scale for each block of 32 values; that
// of weights is a power of two. The Euclidean norm of a block's integers is at most MAX_NORM, so
// the product of two blocks fits into 32 bits, and is exact in any order of its additions.
#include "args.h"
#include "math.h"

struct word_block {
  int16_t q[32];
  float d;
};

#define MAX_WORD 32767.0f
#define MAX_NORM 46330.0f  // of scaled values; rounding adds up to 2.9, and 46340² is below 2³¹

// A group of 16 rows of weights has the exponents of all blocks' scales, one byte for each row, and
// then, from a multiple of 64 bytes on, the blocks: 16 registers of 64 bytes, of which register j
// has columns 2j and 2j+1 of each row, side by side.
#define BLOCK_BYTES 1024
#define EXPONENT_BYTES(blocks) (((blocks) * 16 + 63) & ~63)
#define TILE 32
#define TOGETHER (LANES == 16 ? 8 : 4)
#define VECTORS (LANES == 4 ? 1 : 16 / LANES)

#if LANES == 4
// weights has the columns of a block for four rows: in register 2i columns 4i and 4i+2, in register
// 2i+1 columns 4i+1 and 4i+3.
typedef struct {
  int16x8_t q[16];
} weights[VECTORS];

INLINE void load(weights b, const uint8_t *w, int lane) {
  UNROLL for (int i = 0; i < 16; i += 2) {
    const int16x8_t x = LOAD(int16x8_t, w + 64 * i + 4 * lane), y = LOAD(int16x8_t, w + 64 * (i + 1) + 4 * lane);
    b[0].q[i] = vuzp1q_s16(x, y);
    b[0].q[i + 1] = vuzp2q_s16(x, y);
  }
}

INLINE void dots(i32v (*s)[VECTORS], const weights b, const struct word_block *const *x, const int T) {
  int32x4_t sums[T];
  UNROLL for (int t = 0; t < T; t++) sums[t] = vdupq_n_s32(0);
  UNROLL for (int i = 0; i < 16; i += 4) {
    UNROLL for (int t = 0; t < T; t++) {
      const int16x8_t y = vld1q_s16(x[t]->q + 2 * i);  // one load serves eight columns
      sums[t] = vmlal_laneq_s16(sums[t], vget_low_s16(b[0].q[i]), y, 0);
      sums[t] = vmlal_laneq_s16(sums[t], vget_low_s16(b[0].q[i + 1]), y, 1);
      sums[t] = vmlal_high_laneq_s16(sums[t], b[0].q[i], y, 2);
      sums[t] = vmlal_high_laneq_s16(sums[t], b[0].q[i + 1], y, 3);
      sums[t] = vmlal_laneq_s16(sums[t], vget_low_s16(b[0].q[i + 2]), y, 4);
      sums[t] = vmlal_laneq_s16(sums[t], vget_low_s16(b[0].q[i + 3]), y, 5);
      sums[t] = vmlal_high_laneq_s16(sums[t], b[0].q[i + 2], y, 6);
      sums[t] = vmlal_high_laneq_s16(sums[t], b[0].q[i + 3], y, 7);
    }
  }
  UNROLL for (int t = 0; t < T; t++) s[t][0] = (i32v)sums[t];
}
#elif LANES == 8
typedef const uint8_t *weights;  // the registers are read from memory where they are used
#define load(b, w, lane) ((b) = (w))

#define DOTS(j)                                                                                                   \
  {                                                                                                               \
    __m256i pairs[VECTORS];                                                                                       \
    UNROLL for (int v = 0; v < VECTORS; v++) pairs[v] = LOAD(__m256i, b + 64 * (j) + 32 * v);                      \
    UNROLL for (int t = 0; t < T; t++) {                                                                          \
      const __m256i y = (__m256i)four(x[t]->q + 2 * (j));                                                         \
      UNROLL for (int v = 0; v < VECTORS; v++) s[t][v] += (i32v)_mm256_madd_epi16(pairs[v], y);                   \
    }                                                                                                             \
  }
INLINE void dots(i32v (*s)[VECTORS], const uint8_t *b, const struct word_block *const *x, const int T) {
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int v = 0; v < VECTORS; v++) s[t][v] = splat32(0);
  }
  ROLLED for (int j = 0; j < 16; j += 4) UNROLL for (int i = 0; i < 4; i++) DOTS(j + i)
}
#else
typedef __m512i weights[16];

INLINE void load(weights b, const uint8_t *w, int lane) {
  UNROLL for (int j = 0; j < 16; j++) b[j] = LOAD(__m512i, w + 64 * j);
}

INLINE void dots(i32v (*s)[VECTORS], const weights b, const struct word_block *const *x, const int T) {
  // With few rows, the sum of a row is divided into several, since each multiplication waits for
  // the one before it.
  const int chains = T >= 4 ? 1 : T == 2 ? 2 : 4;
  __m512i sums[T][chains];
  UNROLL for (int t = 0; t < T; t++) UNROLL for (int c = 0; c < chains; c++) sums[t][c] = _mm512_setzero_si512();
  UNROLL for (int j = 0; j < 16; j++) {
    UNROLL for (int t = 0; t < T; t++) {
      __m512i *sum = &sums[t][j % chains];
      *sum = _mm512_dpwssd_epi32(*sum, b[j], (__m512i)four(x[t]->q + 2 * j));
      __asm__ volatile("" : "+v"(*sum));  // keeps the rows interleaved
    }
  }
  UNROLL for (int t = 0; t < T; t++) {
    i32v sum = (i32v)sums[t][0];
    UNROLL for (int c = 1; c < chains; c++) sum += (i32v)sums[t][c];
    s[t][0] = sum;
  }
}
#endif

// add adds the products of a block with T rows of activations to acc.
INLINE void add(f32v (*acc)[VECTORS], const f32v d[VECTORS], const weights b, const struct word_block *const *rows, int64_t k, const int T) {
  const struct word_block *x[T];
  UNROLL for (int t = 0; t < T; t++) {
    x[t] = rows[t] + k;
    __asm__("" : "+r"(x[t]));  // one register instead of a sum of two, which would need an operation more for each load
  }
  i32v s[T][VECTORS];
  dots(s, b, x, T);
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int v = 0; v < VECTORS; v++) acc[t][v] = fma_v(CONVERT(s[t][v], f32v), d[v] * x[t]->d, acc[t][v]);
  }
}

// tile computes n rows of activations with LANES*VECTORS rows of a group of weights, from lane on.
// If ALONE, n is 1.
INLINE void tile(const struct product_args *a, const uint8_t *w, int64_t r, int64_t n, int64_t column, int lane, const int ALONE) {
  const struct word_block *x[ALONE ? 1 : TILE];
  f32v acc[ALONE ? 1 : TILE][VECTORS];
  ROLLED for (int64_t t = 0; t < n; t++) {
    x[t] = (const struct word_block *)a->x + a->in[r + t];
    UNROLL for (int v = 0; v < VECTORS; v++) acc[t][v] = splat(0);
  }
  const uint8_t *exponents = w + lane;
  w += EXPONENT_BYTES(a->blocks);
  ROLLED for (int64_t k = 0; k < a->blocks; k++, w += BLOCK_BYTES, exponents += 16) {
    prefetch_block(w, BLOCK_BYTES, ALONE);
    f32v d[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) d[v] = (f32v)(CONVERT(LOAD(u8v, exponents + LANES * v), u32v) << 23);
    weights b;
    load(b, w, lane);
    if (ALONE) {
      add(acc, d, b, x, k, 1);
      continue;
    }
    int64_t t = 0;
    ROLLED for (; t + TOGETHER <= n; t += TOGETHER) add(acc + t, d, b, x + t, k, TOGETHER);
    UNROLL for (int T = TOGETHER / 2; T > 0; T /= 2) {
      if (t + T > n) continue;
      add(acc + t, d, b, x + t, k, T);
      t += T;
    }
  }
  ROLLED for (int64_t t = 0; t < n; t++) {
    float *out = a->out + a->at[r + t] + column + lane;
    UNROLL for (int v = 0; v < VECTORS; v++, out += LANES) {
      f32v y = acc[t][v];
      if (a->factors) y = fma_v(y, splat(a->factors[r + t]), LOAD(f32v, out));
      STORE(f32v, out, y);
    }
  }
}

// word_product divides the rows into tiles of similar size.
void LEVEL(word_product)(const struct product_args *a) {
  const int64_t size = EXPONENT_BYTES(a->blocks) + a->blocks * BLOCK_BYTES, tiles = (a->rows + TILE - 1) / TILE;
  for (int64_t i = 0; i < tiles; i++) {
    const int64_t r = a->rows * i / tiles, n = a->rows * (i + 1) / tiles - r;
    ROLLED for (int64_t g = 0; g < a->groups; g++) {
      ROLLED for (int lane = 0; lane < 16; lane += LANES * VECTORS) {
        if (n == 1) {
          tile(a, a->w + g * size, r, 1, 16 * g, lane, 1);
        } else {
          tile(a, a->w + g * size, r, n, 16 * g, lane, 0);
        }
      }
    }
  }
}

// quantise_tile converts T blocks, at most four. The results of all T blocks are computed together;
// see FOLD4.
INLINE void quantise_tile(const float *x, struct word_block *out, const int T) {
  f32x16 y[T][2], size[T], squares[T];
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int i = 0; i < 2; i++) y[t][i] = LOAD(f32x16, x + 32 * t + 16 * i);
    size[t] = __builtin_elementwise_max(__builtin_elementwise_abs(y[t][0]), __builtin_elementwise_abs(y[t][1]));
  }
  const f32x4 largest = max4(size[0], size[1 % T], size[2 % T], size[3 % T]);
  const f32x4 inverse = (f32x4)((i32x4)(1 / largest) & (largest > 0x1p-120f));
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int i = 0; i < 2; i++) y[t][i] *= inverse[t];
    squares[t] = fma16(y[t][1], y[t][1], y[t][0] * y[t][0]);
  }
  // The squares of a block with a NaN or an infinity add up to NaN, and so its scale is NaN.
  const f32x4 norm = __builtin_elementwise_sqrt(sums4(squares[0], squares[1 % T], squares[2 % T], squares[3 % T]));
  const f32x4 most = __builtin_elementwise_min(MAX_NORM / norm, MAX_WORD - (f32x4){0});
  const f32x4 d = largest / most + (norm - norm);
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int i = 0; i < 2; i++) {
      const i32x16 q = CONVERT(__builtin_elementwise_roundeven(y[t][i] * most[t]), i32x16);
      STORE(s16x16, out[t].q + 16 * i, CONVERT(q, s16x16));
    }
    out[t].d = d[t];
  }
}

// quantise_words converts a row to blocks of 32 integers. The largest magnitude of a block becomes
// MAX_WORD, or less if the norm of the block would exceed MAX_NORM.
void LEVEL(quantise_words)(const struct quantise_args *a) {
  struct word_block *out = (struct word_block *)a->out;
  int64_t k = 0;
  ROLLED for (; k + 4 <= a->blocks; k += 4) quantise_tile(a->x + 32 * k, out + k, 4);
  ROLLED for (; k < a->blocks; k++) quantise_tile(a->x + 32 * k, out + k, 1);
}
