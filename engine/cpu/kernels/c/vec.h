// Vectors of the three levels. The code uses Clang's vector types. The levels differ in the number
// of lanes, the 8-bit dot product and the size of register tiles.
#pragma once
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")

// LANES is the number of weight rows in a register of a product. A group of 16 rows has 16/LANES
// registers. Scores are computed in tiles of QUERIES queries by 4 positions, values in tiles of 4
// queries by COLUMNS vectors of 16 values.
#if defined(__AVX512VNNI__)
#define PREFIX avx512
#define LANES 16
#define QUERIES 4
#define COLUMNS 4
#elif defined(__AVX2__)
#define PREFIX avx2
#define LANES 8
#define QUERIES 1
#define COLUMNS 1
#elif defined(__ARM_FEATURE_DOTPROD)
#define PREFIX neon
#define LANES 4
#define QUERIES 1
#define COLUMNS 1
#else
#error "no level for this target"
#endif

// PRECISION is the number of bits of activations: 16, or 8 where the file that is compiled says so.
// An integer has PARTS bytes. With WORDS, integers of 16 bits are multiplied as they are; without,
// their bytes are multiplied.
#ifndef PRECISION
#define PRECISION 16
#endif
#if PRECISION == 16
#define PRODUCT product
#define QUANTISE quantise
#define QUANTISE_TILES quantise_tiles
#define MAX_INTEGER (127 * 256)
#else
#define PRODUCT product8
#define QUANTISE quantise8
#define QUANTISE_TILES quantise_tiles8
#define MAX_INTEGER 127
#endif
#define PARTS (PRECISION / 8)
#define WORDS (LANES == 8 && PRECISION == 16)
// AMX is 1 where products of tiles are compiled. They are the same for both precisions.
#define AMX (LANES == 16 && PRECISION == 16)

// LEVEL adds the level to the name of a kernel, as in avx2_softmax.
#define LEVEL__(prefix, name) prefix##_##name
#define LEVEL_(prefix, name) LEVEL__(prefix, name)
#define LEVEL(name) LEVEL_(PREFIX, name)

#define VECTOR(type, n) __attribute__((vector_size(sizeof(type) * (n))))

typedef float f32v VECTOR(float, LANES);
typedef int32_t i32v VECTOR(int32_t, LANES);
typedef uint32_t u32v VECTOR(uint32_t, LANES);
typedef uint16_t u16v VECTOR(uint16_t, LANES);
typedef _Float16 f16v VECTOR(_Float16, LANES);
typedef uint8_t u8v VECTOR(uint8_t, LANES);
typedef int8_t s8v VECTOR(int8_t, LANES);
typedef uint8_t bytes VECTOR(uint8_t, 4 * LANES);
typedef uint16_t u16w VECTOR(uint16_t, 2 * LANES);
typedef int16_t s16w VECTOR(int16_t, 2 * LANES);

// These vectors have 16 values at every level, so that every level adds the values of a row in the
// same 16 sums.
typedef float f32x16 VECTOR(float, 16);
typedef int32_t i32x16 VECTOR(int32_t, 16);
typedef int8_t s8x16 VECTOR(int8_t, 16);
typedef int16_t s16x16 VECTOR(int16_t, 16);
typedef uint8_t u8x16 VECTOR(uint8_t, 16);
typedef uint16_t u16x16 VECTOR(uint16_t, 16);
typedef uint32_t u32x16 VECTOR(uint32_t, 16);
typedef _Float16 f16x16 VECTOR(_Float16, 16);

// LOAD reads a vector of the given type from any address.
#define LOAD(type, p)                                  \
  ({                                                   \
    struct __attribute__((packed)) unaligned { type v; }; \
    ((const struct unaligned *)(p))->v;                \
  })
#define STORE(type, p, x)                              \
  ({                                                   \
    struct __attribute__((packed)) unaligned { type v; }; \
    ((struct unaligned *)(p))->v = (x);                \
  })
#define CONVERT(x, type) __builtin_convertvector(x, type)

// fetch prefetches n bytes.
INLINE void fetch(const void *p, int64_t n) {
  ROLLED for (int64_t i = 0; i < n; i += 64) __builtin_prefetch((const uint8_t *)p + i, 0, 2);
}

INLINE f32v splat(float x) { return x - (f32v){0}; } // x + 0 would turn -0 into 0 and cost an addition
// one_of_four returns the i-th of four values in each lane.
INLINE f32v one_of_four(const float *x, const int i) {
#if LANES == 4
  return splat(LOAD(f32v, x)[i]);  // a multiplication instruction can select a lane of a register
#else
  return splat(x[i]);
#endif
}
INLINE i32v splat32(int32_t x) { return (i32v){0} + x; }
INLINE f32x16 splat16(float x) { return x - (f32x16){0}; }
INLINE f32v fma_v(f32v a, f32v b, f32v c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f32x16 fma16(f32x16 a, f32x16 b, f32x16 c) { return __builtin_elementwise_fma(a, b, c); }
INLINE f32v halves(const void *p) { return CONVERT(LOAD(f16v, p), f32v); }

// four returns the four bytes at p in each lane.
INLINE i32v four(const void *p) {
  int32_t v;
  __builtin_memcpy(&v, p, 4);
  return splat32(v);
}
