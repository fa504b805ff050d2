// Products of quantised weights with 8-bit activations.
//
// Weights are packed in groups of 16 rows. In a block of 32 weights, a register holds 4 bytes of
// each row. Register j has weights 4j to 4j+3. For weights of 4 bits, the low halves of its bytes
// are weights 4j to 4j+3 and the high halves weights 16+4j to 16+4j+3. Further bits of a weight are
// in planes: bit b of byte i of a plane belongs to byte i of register b.
#include "args.h"
#include "vec.h"

// quants has the unpacked weights of a block.
struct quants {
  bytes v[8];
};

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

// dot32 adds the dot product of a block's weights with q to s. dot16 does so for half of a block.
INLINE i32v dot32(i32v s, const struct quants *b, const int8_t *q) {
  UNROLL for (int j = 0; j < 8; j++) s = dot_u8(s, b->v[j], q, j);
  return s;
}

INLINE i32v dot16(i32v s, const struct quants *b, const int8_t *q, const int half) {
  UNROLL for (int j = 4 * half; j < 4 * half + 4; j++) s = dot_u8(s, b->v[j], q, j);
  return s;
}

INLINE f32v add_scaled(f32v acc, i32v s, f32v d, float by) { return fma_v(CONVERT(s, f32v), d * by, acc); }

// Types with one scale for each block. The sum starts with the correction for the offset of the
// weights.
struct scaled_block {
  struct quants q;
  f32v d;
};

#define q4_0_block scaled_block
INLINE struct scaled_block q4_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct scaled_block){nibbles(w + 32, lane), halves(w + 2 * lane)};
}
INLINE f32v q4_0_add(f32v acc, const struct scaled_block *b, const struct block *x) {
  return add_scaled(acc, dot32(splat32(x->minus8), &b->q, x->q), b->d, x->d);
}
#define NAME q4_0
#define BLOCK_BYTES 288
#define SUPER_BYTES 0
#include "product.h"

#define q5_0_block scaled_block
INLINE struct scaled_block q5_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct scaled_block b = {nibbles(w + 32, lane), halves(w + 2 * lane)};
  fifth(&b.q, w + 288, lane);
  return b;
}
INLINE f32v q5_0_add(f32v acc, const struct scaled_block *b, const struct block *x) {
  return add_scaled(acc, dot32(splat32(x->minus16), &b->q, x->q), b->d, x->d);
}
#define NAME q5_0
#define BLOCK_BYTES 352
#define SUPER_BYTES 0
#include "product.h"

#define q8_0_block scaled_block
INLINE struct scaled_block q8_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct scaled_block b;
  b.d = halves(w + 2 * lane);
  UNROLL for (int j = 0; j < 8; j++) b.q.v[j] = prepare_s8(LOAD(bytes, at_lane(w + 32 + 64 * j, lane)));
  return b;
}
INLINE f32v q8_0_add(f32v acc, const struct scaled_block *b, const struct block *x) {
  i32v s = start_s8(x->minus128);
  UNROLL for (int j = 0; j < 8; j++) s = dot_s8(s, b->q.v[j], x->q, j);
  return add_scaled(acc, s, b->d, x->d);
}
#define NAME q8_0
#define BLOCK_BYTES 544
#define SUPER_BYTES 0
#include "product.h"

// Types with one scale and one minimum for each block.
struct offset_block {
  struct quants q;
  f32v d, m;
};

INLINE f32v offset_add(f32v acc, const struct offset_block *b, const struct block *x) {
  acc = fma_v(b->m, splat(x->sum), acc);
  return add_scaled(acc, dot32(splat32(0), &b->q, x->q), b->d, x->d);
}

#define q4_1_block offset_block
#define q4_1_add offset_add
INLINE struct offset_block q4_1_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct offset_block){nibbles(w + 64, lane), halves(w + 2 * lane), halves(w + 32 + 2 * lane)};
}
#define NAME q4_1
#define BLOCK_BYTES 320
#define SUPER_BYTES 0
#include "product.h"

#define q5_1_block offset_block
#define q5_1_add offset_add
INLINE struct offset_block q5_1_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct offset_block b = {nibbles(w + 64, lane), halves(w + 2 * lane), halves(w + 32 + 2 * lane)};
  fifth(&b.q, w + 320, lane);
  return b;
}
#define NAME q5_1
#define BLOCK_BYTES 384
#define SUPER_BYTES 0
#include "product.h"

// Q4_K and Q5_K: every eighth block is preceded by d and dmin, every block by scales and minima of
// one byte each.
INLINE f32v byte_scales(const uint8_t *p) { return CONVERT(CONVERT(LOAD(u8v, p), i32v), f32v); }

#define q4_k_block offset_block
#define q4_k_add offset_add
INLINE struct offset_block q4_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct offset_block){
      nibbles(w + 32, lane),
      halves(super + 2 * lane) * byte_scales(w + lane),
      -halves(super + 32 + 2 * lane) * byte_scales(w + 16 + lane),
  };
}
#define NAME q4_k
#define BLOCK_BYTES 288
#define SUPER_BYTES 64
#include "product.h"

#define q5_k_block offset_block
#define q5_k_add offset_add
INLINE struct offset_block q5_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct offset_block b = q4_k_load(w, super, lane);
  fifth(&b.q, w + 288, lane);
  return b;
}
#define NAME q5_k
#define BLOCK_BYTES 352
#define SUPER_BYTES 64
#include "product.h"

INLINE f32v signed_scales(const uint8_t *p) { return CONVERT(CONVERT(LOAD(s8v, p), i32v), f32v); }

// Q6_K: every eighth block is preceded by d, every block by signed scales of its halves.
struct q6_k_block {
  struct quants q;
  f32v d[2];
};

INLINE struct q6_k_block q6_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct q6_k_block b;
  const f32v d = halves(super + 2 * lane);
  b.q = nibbles(w + 32, lane);
  UNROLL for (int i = 0; i < 2; i++) {
    b.d[i] = d * signed_scales(w + 16 * i + lane);
    const bytes h = LOAD(bytes, at_lane(w + 288 + 64 * i, lane));
    UNROLL for (int j = 0; j < 4; j++) {
      b.q.v[4 * i + j] |= (j < 2 ? h << (4 - 2 * j) : h >> (2 * j - 4)) & 48;
    }
  }
  return b;
}
INLINE f32v q6_k_add(f32v acc, const struct q6_k_block *b, const struct block *x) {
  acc = add_scaled(acc, dot16(splat32(x->first32), &b->q, x->q, 0), b->d[0], x->d);
  return add_scaled(acc, dot16(splat32(x->second32), &b->q, x->q, 1), b->d[1], x->d);
}
#define NAME q6_k
#define BLOCK_BYTES 416
#define SUPER_BYTES 32
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
struct q2_k_block {
  struct quants q;
  f32v d[2], m[2];
};

INLINE struct q2_k_block q2_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct q2_k_block b;
  const f32v d = halves(super + 2 * lane), m = -halves(super + 32 + 2 * lane);
  b.q = twos(w + 32, lane);
  UNROLL for (int i = 0; i < 2; i++) {
    const u8v both = LOAD(u8v, w + 16 * i + lane);
    b.d[i] = d * CONVERT(CONVERT(both & 15, i32v), f32v);
    b.m[i] = m * CONVERT(CONVERT(both >> 4, i32v), f32v);
  }
  return b;
}
INLINE f32v q2_k_add(f32v acc, const struct q2_k_block *b, const struct block *x) {
  acc = fma_v(b->m[0], splat(x->first_sum), acc);
  acc = fma_v(b->m[1], splat(x->sum - x->first_sum), acc);
  acc = add_scaled(acc, dot16(splat32(0), &b->q, x->q, 0), b->d[0], x->d);
  return add_scaled(acc, dot16(splat32(0), &b->q, x->q, 1), b->d[1], x->d);
}
#define NAME q2_k
#define BLOCK_BYTES 160
#define SUPER_BYTES 64
#include "product.h"

// Q3_K: every eighth block is preceded by d, every block by signed scales of its halves.
#define q3_k_block q6_k_block
INLINE struct q6_k_block q3_k_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct q6_k_block b;
  const f32v d = halves(super + 2 * lane);
  UNROLL for (int i = 0; i < 2; i++) b.d[i] = d * signed_scales(w + 16 * i + lane);
  b.q = twos(w + 32, lane);
  const bytes h = LOAD(bytes, at_lane(w + 160, lane));
  UNROLL for (int j = 0; j < 8; j++) b.q.v[j] |= (j < 2 ? h << (2 - j) : h >> (j - 2)) & 4;
  return b;
}
INLINE f32v q3_k_add(f32v acc, const struct q6_k_block *b, const struct block *x) {
  acc = add_scaled(acc, dot16(splat32(x->first32) >> 3, &b->q, x->q, 0), b->d[0], x->d);
  return add_scaled(acc, dot16(splat32(x->second32) >> 3, &b->q, x->q, 1), b->d[1], x->d);
}
#define NAME q3_k
#define BLOCK_BYTES 224
#define SUPER_BYTES 32
#include "product.h"

// Types whose weights are four-bit codes: indices in a table of signed bytes. The bytes of the
// table are prepared for dot_s8.
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

INLINE struct quants codes(const uint8_t *p, int lane, table16 table) {
  struct quants b = nibbles(p, lane);
  UNROLL for (int i = 0; i < 16; i++) table[i] ^= S8_XOR;  // cheaper than prepare_s8 of every register
  UNROLL for (int j = 0; j < 8; j++) b.v[j] = look_up(table, b.v[j]);
  return b;
}

// The same values as gguf.Codes4 and gguf.CodesMX.
#define CODES4 ((table16){129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113})
#define CODES_MX ((table16){0, 1, 2, 3, 4, 6, 8, 12, 0, 255, 254, 253, 252, 250, 248, 244})

#define iq4_nl_block scaled_block
#define iq4_nl_add q8_0_add
INLINE struct scaled_block iq4_nl_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct scaled_block){codes(w + 32, lane, CODES4), halves(w + 2 * lane)};
}
#define NAME iq4_nl
#define BLOCK_BYTES 288
#define SUPER_BYTES 0
#include "product.h"

// IQ4_XS: every eighth block is preceded by d, every block by a signed scale.
#define iq4_xs_block scaled_block
#define iq4_xs_add q8_0_add
INLINE struct scaled_block iq4_xs_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct scaled_block){codes(w + 16, lane, CODES4), halves(super + 2 * lane) * signed_scales(w + lane)};
}
#define NAME iq4_xs
#define BLOCK_BYTES 272
#define SUPER_BYTES 32
#include "product.h"

// MXFP4: every block is preceded by an exponent e. The scale of the codes is 2 to the power e-128,
// which is subnormal below e = 2.
#define mxfp4_block scaled_block
#define mxfp4_add q8_0_add
INLINE struct scaled_block mxfp4_load(const uint8_t *w, const uint8_t *super, int lane) {
  const i32v e = CONVERT(LOAD(u8v, w + lane), i32v), low = e < 2;
  const i32v bits = (((e - 1) << 23) & ~low) | (((e + 1) << 21) & low);  // 0x00200000 for e = 0, 0x00400000 for e = 1
  return (struct scaled_block){codes(w + 16, lane, CODES_MX), (f32v)bits};
}
#define NAME mxfp4
#define BLOCK_BYTES 272
#define SUPER_BYTES 0
#include "product.h"
