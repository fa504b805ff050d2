// Products of quantised weights with 8-bit activations.
//
// Weights are packed in groups of 16 rows. In a block of 32 weights, a register holds 4 bytes of each row. Register j has
// weights 4j to 4j+3. For weights of 4 bits, its low halves begin at weight 4j and its high halves at 16+4j. Further bits
// of a weight are in planes: bit b of byte i of a plane belongs to byte i of the b-th register.
#include "args.h"
#include "vec.h"

// quants is a block's weights, unpacked.
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

// fifth adds the plane of fifth bits.
INLINE void fifth(struct quants *b, const uint8_t *p, int lane) {
  const bytes h = LOAD(bytes, at_lane(p, lane));
  UNROLL for (int j = 0; j < 8; j++) b->v[j] |= (j < 4 ? h << (4 - j) : h >> (j - 4)) & 16;
}

// dot32 adds the products of a block's weights, dot16 those of one of its halves.
INLINE i32v dot32(i32v s, const struct quants *b, const int8_t *q) {
  UNROLL for (int j = 0; j < 8; j++) s = dot_u8(s, b->v[j], q, j);
  return s;
}

INLINE i32v dot16(i32v s, const struct quants *b, const int8_t *q, const int half) {
  UNROLL for (int j = 4 * half; j < 4 * half + 4; j++) s = dot_u8(s, b->v[j], q, j);
  return s;
}

INLINE f32v add_scaled(f32v acc, i32v s, f32v d, float by) { return fma_v(CONVERT(s, f32v), d * by, acc); }

// One scale a block. The sum starts with the offset of the weights.
struct scaled_block {
  struct quants q;
  f32v d;
};

#define q4_0_block scaled_block
INLINE struct scaled_block q4_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  return (struct scaled_block){nibbles(w + 32, lane), halves(w + 2 * lane)};
}
INLINE f32v q4_0_add(f32v acc, const struct scaled_block *b, const int8_t *q, const struct scale *x) {
  return add_scaled(acc, dot32(splat32(x->minus8), &b->q, q), b->d, x->d);
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
INLINE f32v q5_0_add(f32v acc, const struct scaled_block *b, const int8_t *q, const struct scale *x) {
  return add_scaled(acc, dot32(splat32(x->minus8) << 1, &b->q, q), b->d, x->d);
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
INLINE f32v q8_0_add(f32v acc, const struct scaled_block *b, const int8_t *q, const struct scale *x) {
  i32v s = start_s8(x->minus8);
  UNROLL for (int j = 0; j < 8; j++) s = dot_s8(s, b->q.v[j], q, j);
  return add_scaled(acc, s, b->d, x->d);
}
#define NAME q8_0
#define BLOCK_BYTES 544
#define SUPER_BYTES 0
#include "product.h"

// A scale and a minimum a block.
struct offset_block {
  struct quants q;
  f32v d, m;
};

INLINE f32v offset_add(f32v acc, const struct offset_block *b, const int8_t *q, const struct scale *x) {
  acc = fma_v(b->m, splat(x->sum), acc);
  return add_scaled(acc, dot32(splat32(0), &b->q, q), b->d, x->d);
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

// Q4_K and Q5_K: every eighth block is preceded by d and dmin, every block by scales and minima of a byte.
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
    b.d[i] = d * CONVERT(CONVERT(LOAD(s8v, w + 16 * i + lane), i32v), f32v);
    const bytes h = LOAD(bytes, at_lane(w + 288 + 64 * i, lane));
    UNROLL for (int j = 0; j < 4; j++) {
      b.q.v[4 * i + j] |= (j < 2 ? h << (4 - 2 * j) : h >> (2 * j - 4)) & 48;
    }
  }
  return b;
}
INLINE f32v q6_k_add(f32v acc, const struct q6_k_block *b, const int8_t *q, const struct scale *x) {
  acc = add_scaled(acc, dot16(splat32(x->first8) << 2, &b->q, q, 0), b->d[0], x->d);
  return add_scaled(acc, dot16(splat32(x->minus8 - x->first8) << 2, &b->q, q, 1), b->d[1], x->d);
}
#define NAME q6_k
#define BLOCK_BYTES 416
#define SUPER_BYTES 32
#include "product.h"
