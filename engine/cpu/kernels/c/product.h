// A product of packed weights with activations of PRECISION bits, for one weight type. The file
// that includes this one defines
//   NAME             the type's name
//   BLOCK_BYTES      bytes of a block of 32 weights in a group of 16 rows
//   SUPER_BYTES      bytes in front of every eighth block; 0 if the type has no blocks of 256
//   SCALES           number of scales in a block: 1, or 2 if each half has its own
//   MINIMA           1 if the type has minima
//   OFFSET           what unpacked weights have too much: a number for which there is a correction,
//                    or SIGNED for types with signed weights, which set_signed unpacks
//   NAME_load        reads a block for LANES rows
// A result is the sum over the blocks, in their order. The order is the same for any number of
// rows, so a result does not depend on the other rows.
#define PART__(name, part) name##_##part
#define PART_(name, part) PART__(name, part)
#define PART(part) PART_(NAME, part)

// add adds the products of a block with T rows of activations to acc. The dot products of the rows
// are interleaved, so that the processor need not look far ahead for independent instructions.
INLINE void PART(add)(f32v (*acc)[VECTORS], const struct weights b[VECTORS], const struct block *const *rows, int64_t k, const int T) {
  const struct block *x[T];
  UNROLL for (int t = 0; t < T; t++) {
    x[t] = rows[t] + k;
    __asm__("" : "+r"(x[t]));  // one register instead of a sum of two, which would need an operation more for each load
  }
  UNROLL for (int h = 0; h < SCALES; h++) {
    i32v s[T][VECTORS];
    dots(s, b, x, h, SCALES, T, OFFSET);
    UNROLL for (int t = 0; t < T; t++) {
      UNROLL for (int v = 0; v < VECTORS; v++) {
        f32v y = acc[t][v];
        if (MINIMA) y = fma_v(b[v].m[h], splat(SCALES == 1 ? x[t]->sum : x[t]->sums[h]), y);
        acc[t][v] = fma_v(CONVERT(s[t][v], f32v), b[v].d[h] * x[t]->d, y);
      }
    }
  }
}

// tile computes n rows of activations with one group of weights, or with LANES*VECTORS of its rows
// from lane on. If ALONE, n is 1.
INLINE void PART(tile)(const struct product_args *a, const uint8_t *w, int64_t r, int64_t n, int64_t column, int lane, const int ALONE) {
  const struct block *x[ALONE ? 1 : TILE];
  f32v acc[ALONE ? 1 : TILE][VECTORS];
  ROLLED for (int64_t t = 0; t < n; t++) {
    x[t] = (const struct block *)a->x + a->in[r + t];
    UNROLL for (int v = 0; v < VECTORS; v++) acc[t][v] = splat(0);
  }
  const uint8_t *super = w;
  ROLLED for (int64_t k = 0; k < a->blocks; k++) {
    if (SUPER_BYTES > 0 && k % 8 == 0) {
      super = w;
      w += SUPER_BYTES;
    }
    prefetch_block(w, BLOCK_BYTES, ALONE);
    struct weights b[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) b[v] = PART(load)(w, super, lane + LANES * v);
    if (ALONE) {
      PART(add)(acc, b, x, k, 1);
    } else {
      int64_t t = 0;
      ROLLED for (; t + TOGETHER <= n; t += TOGETHER) PART(add)(acc + t, b, x + t, k, TOGETHER);
      UNROLL for (int T = TOGETHER / 2; T > 0; T /= 2) {
        if (t + T > n) continue;
        PART(add)(acc + t, b, x + t, k, T);
        t += T;
      }
    }
    w += BLOCK_BYTES;
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

// product divides the rows into tiles of similar size.
void LEVEL(PART(PRODUCT))(const struct product_args *a) {
  const int64_t size = a->blocks * BLOCK_BYTES + (a->blocks / 8) * SUPER_BYTES;
  const int64_t tiles = (a->rows + TILE - 1) / TILE;
  for (int64_t i = 0; i < tiles; i++) {
    const int64_t r = a->rows * i / tiles, n = a->rows * (i + 1) / tiles - r;
    ROLLED for (int64_t g = 0; g < a->groups; g++) {
      ROLLED for (int lane = 0; lane < 16; lane += LANES * VECTORS) {
        if (n == 1) {
          PART(tile)(a, a->w + g * size, r, 1, 16 * g, lane, 1);
        } else {
          PART(tile)(a, a->w + g * size, r, n, 16 * g, lane, 0);
        }
      }
    }
  }
}

#if AMX
#define GROUP_BYTES(blocks) ((blocks) * BLOCK_BYTES + (blocks) / 8 * SUPER_BYTES)
INLINE void PART(unpack)(struct unpacked *u, const uint8_t *group, int64_t blocks, int64_t k) {
  const uint8_t *super = group + k / 8 * GROUP_BYTES(8), *w = super + SUPER_BYTES + k % 8 * BLOCK_BYTES;
  UNROLL for (int at = 0; at < BLOCK_BYTES; at += 64) __builtin_prefetch(w + at + 4096, 0, 3);
  const struct weights b = PART(load)(w, super, 0);
  unpack_tile(u, &b, OFFSET);
  UNROLL for (int h = 0; h < SCALES; h++) {
    u->d[h] = b.d[h];
    if (MINIMA) u->m[h] = b.m[h];
  }
}
#include "tiles.h"
#undef GROUP_BYTES
#endif

#undef NAME
#undef BLOCK_BYTES
#undef SUPER_BYTES
#undef SCALES
#undef MINIMA
#undef OFFSET
