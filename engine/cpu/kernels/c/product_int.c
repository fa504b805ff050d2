// Products of quantised weights with activations of PRECISION bits.
//
// Weights are packed in groups of 16 rows. In a block of 32 weights, a register holds 4 bytes of
// each row. Register j has weights 4j to 4j+3. For weights of 4 bits, the low halves of its bytes
// are weights 4j to 4j+3 and the high halves weights 16+4j to 16+4j+3. Further bits of a weight are
// in planes: bit b of byte i of a plane belongs to byte i of register b.
#include "args.h"
#include "tile.h"
#include "vec.h"

// A tile has at most TILE rows of activations. VECTORS registers have the weights of the same
// columns, and REGISTERS the columns of a block.
#define TILE 32
#define TOGETHER (LANES == 16 ? 8 : 4)
#define VECTORS (LANES == 4 ? 1 : 16 / LANES)
#if WORDS
#define REGISTERS 16
typedef s16w columns;
#else
#define REGISTERS 8
typedef bytes columns;
#endif

// weights is an unpacked block of LANES rows: its weights, and the scales and minima of its halves.
// Types with one scale for each block use d[0] and m[0].
struct weights {
  columns q[REGISTERS];
  f32v d[2], m[2];
};

// quants has the weights of a block as bytes.
struct quants {
  bytes v[8];
};

// SIGNED is the OFFSET of types with signed weights. VNNI multiplies unsigned bytes, so it adds 128
// to them.
#define SIGNED 128
#if LANES == 16
#define SIGNED_XOR 0x80
#else
#define SIGNED_XOR 0
#endif

// set converts bytes to the integers that dots multiplies. With 16-bit integers, a register of
// bytes gives two registers: the first has bytes 0 and 2 of each lane, the second has bytes 1 and
// 3.
INLINE void set(struct weights *b, const struct quants *q) {
  UNROLL for (int j = 0; j < 8; j++) {
#if WORDS
    b->q[2 * j] = (s16w)((u16w)q->v[j] & 255);
    b->q[2 * j + 1] = (s16w)((u16w)q->v[j] >> 8);
#else
    b->q[j] = q->v[j];
#endif
  }
}

// set_signed is set for signed bytes that were exclusive-ored with SIGNED_XOR.
INLINE void set_signed(struct weights *b, const struct quants *q) {
#if WORDS
  UNROLL for (int j = 0; j < 8; j++) {
    b->q[2 * j] = (s16w)((u16w)q->v[j] << 8) >> 8;
    b->q[2 * j + 1] = (s16w)q->v[j] >> 8;
  }
#else
  set(b, q);
#endif
}

// correction returns what a dot product of a block, or of half h of a block, has too much because
// unpacked weights are larger than the weights by offset.
INLINE i32v correction(const struct block *x, const int h, const int scales, const int offset) {
  if (offset == SIGNED && LANES != 16) return splat32(0);
  if (scales == 2) {
    return offset == 32       ? splat32(x->minus32[h])
           : offset == 4      ? splat32(x->minus32[h]) >> 3
           : offset == SIGNED ? splat32(x->minus32[h]) << 2
                              : splat32(0);
  }
  return offset == 8        ? splat32(x->minus8)
         : offset == 1      ? splat32(x->minus8) >> 3
         : offset == 16     ? splat32(x->minus8) << 1
         : offset == SIGNED ? splat32(x->minus128)
                            : splat32(0);
}

// dots has a version for each level. It writes the dot products of a block, or of half h of a
// block, with T rows of activations to s, and corrects them for the offset of the weights.

#if LANES == 4
INLINE i32v dot4(i32v s, bytes w, const int8_t *a, const int j) {
  const int8x16_t x = vld1q_s8(a + j / 4 * 16);  // one load serves four values of j
  switch (j % 4) {
    case 0: return (i32v)vdotq_laneq_s32((int32x4_t)s, (int8x16_t)w, x, 0);
    case 1: return (i32v)vdotq_laneq_s32((int32x4_t)s, (int8x16_t)w, x, 1);
    case 2: return (i32v)vdotq_laneq_s32((int32x4_t)s, (int8x16_t)w, x, 2);
    default: return (i32v)vdotq_laneq_s32((int32x4_t)s, (int8x16_t)w, x, 3);
  }
}

INLINE void dots(i32v (*s)[VECTORS], const struct weights *b, const struct block *const *x, const int h, const int scales, const int T, const int offset) {
  const int from = h * (REGISTERS / scales), to = (h + 1) * (REGISTERS / scales);
  i32v sums[PARTS][T];
  UNROLL for (int p = 0; p < PARTS; p++) {
    UNROLL for (int t = 0; t < T; t++) sums[p][t] = p == PARTS - 1 ? correction(x[t], h, scales, offset) : splat32(0);
  }
  UNROLL for (int j = from; j < to; j++) {
    UNROLL for (int t = 0; t < T; t++) {
      UNROLL for (int p = 0; p < PARTS; p++) sums[p][t] = dot4(sums[p][t], b->q[j], x[t]->q[p], j);
    }
  }
  UNROLL for (int t = 0; t < T; t++) s[t][0] = PARTS == 1 ? sums[0][t] : (sums[0][t] << 8) + sums[PARTS - 1][t];
}
#elif LANES == 8
#if WORDS
#define DOTS_OF_FOUR(j)                                                                                        \
  UNROLL for (int i = 0; i < 4; i++) {                                                                         \
    UNROLL for (int t = 0; t < T; t++) {                                                                       \
      const __m256i pair = (__m256i)four(x[t]->q + 2 * (j + i));                                               \
      UNROLL for (int v = 0; v < VECTORS; v++) s[t][v] += (i32v)_mm256_madd_epi16((__m256i)b[v].q[j + i], pair); \
    }                                                                                                          \
  }
#else
// Sums of joined products of bytes fit into 16 bits: unsigned weights are at most 31, or 63 if
// their offset is 32. Activations are at most 127, and are never -128, which has no opposite. A
// register of weights is read for some rows together.
#define DOTS_OF_FOUR(j)                                                                                       \
  UNROLL for (int first = 0; first < T; first += together) {                                                      \
    UNROLL for (int i = 0; i < 4; i += joined) {                                                              \
      s16w pairs[together][VECTORS];                                                                              \
      UNROLL for (int k = 0; k < joined; k++) {                                                               \
        __m256i w[VECTORS], size[VECTORS];                                                                    \
        UNROLL for (int v = 0; v < VECTORS; v++) {                                                            \
          w[v] = (__m256i)b[v].q[j + i + k];                                                                  \
          size[v] = offset == SIGNED ? _mm256_abs_epi8(w[v]) : w[v];                                          \
        }                                                                                                     \
        UNROLL for (int t = 0; t < together; t++) {                                                               \
          const __m256i a = (__m256i)four(x[first + t]->q[0] + 4 * (j + i + k));                              \
          UNROLL for (int v = 0; v < VECTORS; v++) {                                                          \
            const s16w y = (s16w)_mm256_maddubs_epi16(size[v], offset == SIGNED ? _mm256_sign_epi8(a, w[v]) : a); \
            pairs[t][v] = k == 0 ? y : pairs[t][v] + y;                                                       \
          }                                                                                                   \
        }                                                                                                     \
      }                                                                                                       \
      UNROLL for (int t = 0; t < together; t++) {                                                                 \
        UNROLL for (int v = 0; v < VECTORS; v++) s[first + t][v] += (i32v)_mm256_madd_epi16((__m256i)pairs[t][v], _mm256_set1_epi16(1)); \
      }                                                                                                       \
    }                                                                                                         \
  }
#endif
INLINE void dots(i32v (*s)[VECTORS], const struct weights *b, const struct block *const *x, const int h, const int scales, const int T, const int offset) {
  const int from = h * (REGISTERS / scales), to = (h + 1) * (REGISTERS / scales);
  const int joined = offset == SIGNED ? 1 : offset == 32 ? 2 : 4;
  const int together = T >= 2 && joined != 2 ? 2 : 1;
  (void)joined, (void)together;
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int v = 0; v < VECTORS; v++) s[t][v] = correction(x[t], h, scales, offset);
  }
  // The weights of several rows do not fit into the registers: a rolled loop reads them from memory
  // where they are used.
  if (T == 1) {
    UNROLL for (int j = from; j < to; j += 4) DOTS_OF_FOUR(j)
  } else {
    ROLLED for (int j = from; j < to; j += 4) DOTS_OF_FOUR(j)
  }
}
#else
INLINE i32v dot4(i32v s, bytes w, const int8_t *a, const int j) {
  __m512i sum = _mm512_dpbusd_epi32((__m512i)s, (__m512i)w, (__m512i)four(a + 4 * j));
  __asm__ volatile("" : "+v"(sum));  // keeps the rows interleaved
  return (i32v)sum;
}

INLINE void dots(i32v (*s)[VECTORS], const struct weights *b, const struct block *const *x, const int h, const int scales, const int T, const int offset) {
  const int from = h * (REGISTERS / scales), to = (h + 1) * (REGISTERS / scales);
  if (T >= 8) {
    i32v sums[T];
    UNROLL for (int t = 0; t < T; t++) sums[t] = PARTS == 1 ? correction(x[t], h, scales, offset) : splat32(0);
    UNROLL for (int j = from; j < to; j++) {
      UNROLL for (int t = 0; t < T; t++) sums[t] = dot4(sums[t], b->q[j], x[t]->q[0], j);
    }
#if PARTS == 2
    UNROLL for (int t = 0; t < T; t++) sums[t] = (sums[t] << 8) + correction(x[t], h, scales, offset);
    UNROLL for (int j = from; j < to; j++) {
      UNROLL for (int t = 0; t < T; t++) sums[t] = dot4(sums[t], b->q[j], x[t]->q[1], j);
    }
#endif
    UNROLL for (int t = 0; t < T; t++) s[t][0] = sums[t];
    return;
  }
  // With few rows, the sum of a row is divided into several, since each multiplication waits for
  // the one before it.
  const int chains = T >= 4 ? 1 : 2;
  i32v sums[PARTS][T][chains];
  UNROLL for (int i = 0; i < PARTS * T * chains; i++) (&sums[0][0][0])[i] = splat32(0);
  UNROLL for (int t = 0; t < T; t++) sums[PARTS - 1][t][0] = correction(x[t], h, scales, offset);
  UNROLL for (int j = from; j < to; j++) {
    UNROLL for (int p = 0; p < PARTS; p++) {
      UNROLL for (int t = 0; t < T; t++) sums[p][t][j % chains] = dot4(sums[p][t][j % chains], b->q[j], x[t]->q[p], j);
    }
  }
  UNROLL for (int t = 0; t < T; t++) {
    UNROLL for (int p = 0; p < PARTS; p++) {
      i32v sum = sums[p][t][0];
      if (chains == 2) sum += sums[p][t][1];
      s[t][0] = p == 0 ? sum : (s[t][0] << 8) + sum;
    }
  }
}
#endif

#if AMX
// unpack_tile converts the weights of a block to bfloat16.
INLINE void unpack_tile(struct unpacked *u, const struct weights *b, const int offset) {
  if (offset < 32) {  // weights of at most five bits
    u16w table;
    UNROLL for (int i = 0; i < 32; i++) {
      const union { float f; uint32_t bits; } w = {i - offset};
      table[i] = w.bits >> 16;
    }
    UNROLL for (int j = 0; j < 8; j++) {
      UNROLL for (int i = 0; i < 2; i++) {
        STORE(__m512i, u->q[2 * j + i], _mm512_permutexvar_epi16((__m512i)((u16w)b->q[j] >> (8 * i)), (__m512i)table));
      }
    }
    return;
  }
  // A byte in the mantissa of 2²³, or of 2¹⁵, is added to this number.
  UNROLL for (int j = 0; j < 8; j++) {
    u32v w[2][2];
    UNROLL for (int i = 0; i < 2; i++) {
      const u32v x = (u32v)b->q[j] >> (16 * i);
      w[i][0] = (u32v)((f32v)((x & 0xff) | 0x4b000000) - (0x1p23f + offset));
      w[i][1] = (u32v)((f32v)((x & 0xff00) | 0x47000000) - (0x1p15f + offset));
    }
    UNROLL for (int i = 0; i < 2; i++) STORE(u32v, u->q[2 * j + i], w[0][i] >> 16 | w[1][i]);
  }
}
#endif

INLINE const uint8_t *at_lane(const uint8_t *p, int lane) { return p + 4 * lane; }

INLINE struct quants nibbles(const uint8_t *p, int lane) {
  struct quants b;
  UNROLL for (int j = 0; j < 4; j++) {
    const bytes w = LOAD(bytes, at_lane(p + 64 * j, lane));
    b.v[j] = w & 15;
    b.v[j + 4] = w >> 4;
  }
  return b;
}

// fifth sets the fifth bits of the weights from plane p.
INLINE void fifth(struct quants *b, const uint8_t *p, int lane) {
  const bytes h = LOAD(bytes, at_lane(p, lane));
  UNROLL for (int j = 0; j < 8; j++) b->v[j] |= (j < 4 ? h << (4 - j) : h >> (j - 4)) & 16;
}

INLINE struct weights q4_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(w + 2 * lane)}};
  const struct quants q = nibbles(w + 32, lane);
  set(&b, &q);
  return b;
}
#define NAME q4_0
#define BLOCK_BYTES 288
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 0
#define OFFSET 8
#include "product.h"

INLINE struct weights q5_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(w + 2 * lane)}};
  struct quants q = nibbles(w + 32, lane);
  fifth(&q, w + 288, lane);
  set(&b, &q);
  return b;
}
#define NAME q5_0
#define BLOCK_BYTES 352
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 0
#define OFFSET 16
#include "product.h"

INLINE struct weights q8_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(w + 2 * lane)}};
  struct quants q;
  UNROLL for (int j = 0; j < 8; j++) q.v[j] = LOAD(bytes, at_lane(w + 32 + 64 * j, lane)) ^ SIGNED_XOR;
  set_signed(&b, &q);
  return b;
}
#define NAME q8_0
#define BLOCK_BYTES 544
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

INLINE struct weights q4_1_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(w + 2 * lane)}, .m = {halves(w + 32 + 2 * lane)}};
  const struct quants q = nibbles(w + 64, lane);
  set(&b, &q);
  return b;
}
#define NAME q4_1
#define BLOCK_BYTES 320
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 1
#define OFFSET 0
#include "product.h"

INLINE struct weights q5_1_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(w + 2 * lane)}, .m = {halves(w + 32 + 2 * lane)}};
  struct quants q = nibbles(w + 64, lane);
  fifth(&q, w + 320, lane);
  set(&b, &q);
  return b;
}
#define NAME q5_1
#define BLOCK_BYTES 384
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 1
#define OFFSET 0
#include "product.h"

// Q4_K and Q5_K: every eighth block is preceded by d and dmin, every block by scales and minima of
// one byte each.
INLINE f32v byte_scales(const uint8_t *p) { return CONVERT(CONVERT(LOAD(u8v, p), i32v), f32v); }

INLINE struct weights k_scales(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct weights){
      .d = {halves(super + 2 * lane) * byte_scales(w + lane)},
      .m = {-halves(super + 32 + 2 * lane) * byte_scales(w + 16 + lane)},
  };
}

INLINE struct weights q4_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = k_scales(w, super, lane);
  const struct quants q = nibbles(w + 32, lane);
  set(&b, &q);
  return b;
}
#define NAME q4_k
#define BLOCK_BYTES 288
#define SUPER_BYTES 64
#define SCALES 1
#define MINIMA 1
#define OFFSET 0
#include "product.h"

INLINE struct weights q5_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = k_scales(w, super, lane);
  struct quants q = nibbles(w + 32, lane);
  fifth(&q, w + 288, lane);
  set(&b, &q);
  return b;
}
#define NAME q5_k
#define BLOCK_BYTES 352
#define SUPER_BYTES 64
#define SCALES 1
#define MINIMA 1
#define OFFSET 0
#include "product.h"

INLINE f32v signed_scales(const uint8_t *p) { return CONVERT(CONVERT(LOAD(s8v, p), i32v), f32v); }

// Q6_K and Q3_K: every eighth block is preceded by d, every block by signed scales of its halves.
INLINE struct weights half_scales(const uint8_t *w, const uint8_t *super, int lane) {
  const f32v d = halves(super + 2 * lane);
  return (struct weights){.d = {d * signed_scales(w + lane), d * signed_scales(w + 16 + lane)}};
}

INLINE struct weights q6_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = half_scales(w, super, lane);
  struct quants q = nibbles(w + 32, lane);
  UNROLL for (int i = 0; i < 2; i++) {
    const bytes h = LOAD(bytes, at_lane(w + 288 + 64 * i, lane));
    UNROLL for (int j = 0; j < 4; j++) {
      q.v[4 * i + j] |= (j < 2 ? h << (4 - 2 * j) : h >> (2 * j - 4)) & 48;
    }
  }
  set(&b, &q);
  return b;
}
#define NAME q6_k
#define BLOCK_BYTES 416
#define SUPER_BYTES 32
#define SCALES 2
#define MINIMA 0
#define OFFSET 32
#include "product.h"

// twos unpacks weights of two bits. Each register of packed weights gives four registers.
INLINE struct quants twos(const uint8_t *p, int lane) {
  struct quants b;
  UNROLL for (int i = 0; i < 2; i++) {
    const bytes h = LOAD(bytes, at_lane(p + 64 * i, lane));
    UNROLL for (int j = 0; j < 4; j++) b.v[4 * i + j] = (h >> (2 * j)) & 3;
  }
  return b;
}

// Q2_K: every eighth block is preceded by d and dmin, every block by the scales and minima of its
// halves, which share a byte.
INLINE struct weights q2_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b;
  const f32v d = halves(super + 2 * lane), m = -halves(super + 32 + 2 * lane);
  UNROLL for (int i = 0; i < 2; i++) {
    const u8v both = LOAD(u8v, w + 16 * i + lane);
    b.d[i] = d * CONVERT(CONVERT(both & 15, i32v), f32v);
    b.m[i] = m * CONVERT(CONVERT(both >> 4, i32v), f32v);
  }
  const struct quants q = twos(w + 32, lane);
  set(&b, &q);
  return b;
}
#define NAME q2_k
#define BLOCK_BYTES 160
#define SUPER_BYTES 64
#define SCALES 2
#define MINIMA 1
#define OFFSET 0
#include "product.h"

INLINE struct weights q3_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = half_scales(w, super, lane);
  struct quants q = twos(w + 32, lane);
  const bytes h = LOAD(bytes, at_lane(w + 160, lane));
  UNROLL for (int j = 0; j < 8; j++) {
    q.v[j] |= (j < 2 ? h << (2 - j) : h >> (j - 2)) & 4;
  }
  set(&b, &q);
  return b;
}
#define NAME q3_k
#define BLOCK_BYTES 224
#define SUPER_BYTES 32
#define SCALES 2
#define MINIMA 0
#define OFFSET 4
#include "product.h"

// Types whose weights are four-bit codes: indices in a table of signed bytes.
typedef uint8_t table16 VECTOR(uint8_t, 16);

INLINE bytes look_up(table16 table, bytes codes) {
#if LANES == 16
  return (bytes)_mm512_shuffle_epi8(_mm512_broadcast_i32x4((__m128i)table), (__m512i)codes);
#elif LANES == 8
  return (bytes)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)table), (__m256i)codes);
#else
  return (bytes)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)codes);
#endif
}

// values replaces codes by their values in a table.
INLINE void values(struct weights *b, struct quants *q, table16 table) {
  UNROLL for (int i = 0; i < 16; i++) table[i] ^= SIGNED_XOR;
  UNROLL for (int j = 0; j < 8; j++) q->v[j] = look_up(table, q->v[j]);
  set_signed(b, q);
}

INLINE struct weights codes(f32v d, const uint8_t *p, int lane, table16 table) {
  struct weights b = {.d = {d}};
  struct quants q = nibbles(p, lane);
  values(&b, &q, table);
  return b;
}

// The same values as gguf.Codes4 and gguf.CodesMX.
#define CODES4 ((table16){129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113})
#define CODES_MX ((table16){0, 1, 2, 3, 4, 6, 8, 12, 0, 255, 254, 253, 252, 250, 248, 244})

INLINE struct weights iq4_nl_load(const uint8_t *w, const uint8_t *super, int lane) {
  return codes(halves(w + 2 * lane), w + 32, lane, CODES4);
}
#define NAME iq4_nl
#define BLOCK_BYTES 288
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// IQ4_XS: every eighth block is preceded by d, every block by a signed scale.
INLINE struct weights iq4_xs_load(const uint8_t *w, const uint8_t *super, int lane) {
  return codes(halves(super + 2 * lane) * signed_scales(w + lane), w + 16, lane, CODES4);
}
#define NAME iq4_xs
#define BLOCK_BYTES 272
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// MXFP4: every block is preceded by an exponent e. The scale of the codes is 2 to the power e-128,
// which is subnormal below e = 2.
INLINE struct weights mxfp4_load(const uint8_t *w, const uint8_t *super, int lane) {
  const i32v e = CONVERT(LOAD(u8v, w + lane), i32v), low = e < 2;
  const i32v bits = (((e - 1) << 23) & ~low) | (((e + 1) << 21) & low);  // 0x00200000 for e = 0, 0x00400000 for e = 1
  return codes((f32v)bits, w + 16, lane, CODES_MX);
}
#define NAME mxfp4
#define BLOCK_BYTES 272
#define SUPER_BYTES 0
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"
