// Products of weights whose codes stand for small integers: the types with grids, the ternary types
// and NVFP4. pack.go turns the points of grids into codes. The tables have the values of
// gguf.CodeTableOf, and the scales its units.

#define VALUES_IQ2 ((table16){8, 25, 43, 0, 248, 231, 213, 0})
#define VALUES_IQ1 ((table16){249, 1, 9, 0, 247, 255, 7, 0})
#define VALUES_IQ3_XXS ((table16){4, 12, 20, 28, 36, 44, 52, 62, 252, 244, 236, 228, 220, 212, 204, 194})
#define VALUES_IQ3_S ((table16){1, 3, 5, 7, 9, 11, 13, 15, 255, 253, 251, 249, 247, 245, 243, 241})

INLINE i32v byte_integers(const uint8_t *p) { return CONVERT(LOAD(u8v, p), i32v); }

// IQ3: every eighth block is preceded by d, every block by a scale.
INLINE struct weights iq3_xxs_load(const uint8_t *w, const uint8_t *super, int lane) {
  return codes(halves(super + 2 * lane) * 0.25f * byte_scales(w + lane), w + 16, lane, VALUES_IQ3_XXS);
}
#define NAME iq3_xxs
#define BLOCK_BYTES 272
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

INLINE struct weights iq3_s_load(const uint8_t *w, const uint8_t *super, int lane) {
  return codes(halves(super + 2 * lane) * byte_scales(w + lane), w + 16, lane, VALUES_IQ3_S);
}
#define NAME iq3_s
#define BLOCK_BYTES 272
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// IQ2: every eighth block is preceded by d, every block by a byte with scales of its halves: a
// scale is an odd number of five bits, of which the upper four are stored. The signs are in a plane
// like the third bits of Q3_K.
INLINE f32v odd_scales(i32v four) { return CONVERT(((four & 15) << 1) + 1, f32v); }

INLINE struct weights iq2_values(struct weights b, const uint8_t *w, int lane) {
  struct quants q = twos(w + 16, lane);
  const bytes h = LOAD(bytes, at_lane(w + 144, lane));
  UNROLL for (int j = 0; j < 8; j++) q.v[j] |= (j < 2 ? h << (2 - j) : h >> (j - 2)) & 4;
  values(&b, &q, VALUES_IQ2);
  return b;
}

// Both halves of a block of IQ2_XXS have the same scale.
INLINE struct weights iq2_xxs_load(const uint8_t *w, const uint8_t *super, int lane) {
  const f32v d = halves(super + 2 * lane) * 0.125f;
  return iq2_values((struct weights){.d = {d * odd_scales(byte_integers(w + lane))}}, w, lane);
}
#define NAME iq2_xxs
#define BLOCK_BYTES 208
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

INLINE struct weights iq2_xs_load(const uint8_t *w, const uint8_t *super, int lane) {
  const f32v d = halves(super + 2 * lane) * 0.125f;
  const i32v both = byte_integers(w + lane);
  return iq2_values((struct weights){.d = {d * odd_scales(both), d * odd_scales(both >> 4)}}, w, lane);
}
#define NAME iq2_xs
#define BLOCK_BYTES 208
#define SUPER_BYTES 32
#define SCALES 2
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// third adds 4 to the codes of a lane's register if a bit of four is set.
INLINE bytes third(i32v four, const int bit) { return (bytes)(-((four >> bit) & 1) & 0x04040404); }

// IQ1_S: every eighth block is preceded by d, every block by a byte with its scale in the low four
// bits, and the sign of its shift in the highest.
INLINE struct weights iq1_s_load(const uint8_t *w, const uint8_t *super, int lane) {
  const i32v scale = byte_integers(w + lane);
  struct weights b = {.d = {halves(super + 2 * lane) * 0.125f * CONVERT(scale & 15, f32v)}};
  struct quants q = twos(w + 16, lane);
  const bytes shift = third(scale, 7);
  UNROLL for (int j = 0; j < 8; j++) q.v[j] |= shift;
  values(&b, &q, VALUES_IQ1);
  return b;
}
#define NAME iq1_s
#define BLOCK_BYTES 144
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// IQ1_M: every eighth block is preceded by d, every block by a byte with the scales of its halves,
// and a byte with the signs of the shifts of each eight weights.
INLINE struct weights iq1_m_load(const uint8_t *w, const uint8_t *super, int lane) {
  const f32v d = halves(super + 2 * lane) * 0.125f;
  const i32v both = byte_integers(w + lane), shifts = byte_integers(w + 16 + lane);
  struct weights b = {.d = {d * CONVERT(both & 15, f32v), d * CONVERT(both >> 4, f32v)}};
  struct quants q = twos(w + 32, lane);
  UNROLL for (int j = 0; j < 8; j++) q.v[j] |= third(shifts, j / 2);
  values(&b, &q, VALUES_IQ1);
  return b;
}
#define NAME iq1_m
#define BLOCK_BYTES 160
#define SUPER_BYTES 32
#define SCALES 2
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// TQ2_0: every eighth block is preceded by d. TQ1_0 has the same layout.
INLINE struct weights tq2_0_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = {.d = {halves(super + 2 * lane)}};
  const struct quants q = twos(w, lane);
  set(&b, &q);
  return b;
}
#define NAME tq2_0
#define BLOCK_BYTES 128
#define SUPER_BYTES 32
#define SCALES 1
#define MINIMA 0
#define OFFSET 1
#include "product.h"

// float_byte returns half of the scales of NVFP4: floats with four bits of exponent and three of
// mantissa.
INLINE f32v float_byte(const uint8_t *p) {
  const i32v v = byte_integers(p), low = v < 8;
  const f32v small = CONVERT(v, f32v) * (1.0f / 1024);
  return (f32v)((((v << 20) + (119 << 23)) & ~low) | ((i32v)small & low));
}

// NVFP4: every block is preceded by scales of its halves.
INLINE struct weights nvfp4_load(const uint8_t *w, const uint8_t *super, int lane) {
  struct weights b = codes(float_byte(w + lane), w + 32, lane, CODES_MX);
  b.d[1] = float_byte(w + 16 + lane);
  return b;
}
#define NAME nvfp4
#define BLOCK_BYTES 288
#define SUPER_BYTES 0
#define SCALES 2
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"

// NVFP4_F32: a factor of each row follows the scales.
INLINE struct weights nvfp4_f32_load(const uint8_t *w, const uint8_t *super, int lane) {
  const f32v factor = LOAD(f32v, w + 32 + 4 * lane);
  struct weights b = codes(float_byte(w + lane) * factor, w + 96, lane, CODES_MX);
  b.d[1] = float_byte(w + 16 + lane) * factor;
  return b;
}
#define NAME nvfp4_f32
#define BLOCK_BYTES 352
#define SUPER_BYTES 0
#define SCALES 2
#define MINIMA 0
#define OFFSET SIGNED
#include "product.h"
