// Conversions of rows of the KV cache between float32 and float16, Q8_0 or Q4_0. The last two have
// blocks of 32 values in GGUF's layout.
#include "args.h"
#include "math.h"

#define Q8_BYTES 34
#define Q4_BYTES 18

void LEVEL(from_f16)(const struct convert_args *a) {
  const uint8_t *src = a->src;
  float *dst = a->dst;
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) STORE(f32x16, dst + i, CONVERT(LOAD(f16x16, src + 2 * i), f32x16));
  ROLLED for (; i < a->n; i++) dst[i] = (float)LOAD(_Float16, src + 2 * i);
}

void LEVEL(to_f16)(const struct convert_args *a) {
  const float *src = a->src;
  uint8_t *dst = a->dst;
  int64_t i = 0;
  for (; i + 16 <= a->n; i += 16) STORE(f16x16, dst + 2 * i, CONVERT(LOAD(f32x16, src + i), f16x16));
  ROLLED for (; i < a->n; i++) STORE(_Float16, dst + 2 * i, (_Float16)src[i]);
}

void LEVEL(from_q8_0)(const struct convert_args *a) {
  const uint8_t *src = a->src;
  float *dst = a->dst;
  for (int64_t i = 0; i < a->n; i += 32, src += Q8_BYTES) {
    const float d = (float)LOAD(_Float16, src);
    UNROLL for (int j = 0; j < 32; j += 16) {
      STORE(f32x16, dst + i + j, d * CONVERT(CONVERT(LOAD(s8x16, src + 2 + j), i32x16), f32x16));
    }
  }
}

void LEVEL(to_q8_0)(const struct convert_args *a) {
  const float *src = a->src;
  uint8_t *dst = a->dst;
  for (int64_t i = 0; i < a->n; i += 32, dst += Q8_BYTES) {
    const f32x16 x0 = LOAD(f32x16, src + i), x1 = LOAD(f32x16, src + i + 16);
    const f32x16 size = __builtin_elementwise_max(__builtin_elementwise_abs(x0), __builtin_elementwise_abs(x1));
    const float d = max_of(size) * (1.0f / 127);
    const float inverse = d > 0x1p-120f ? 1 / d : 0;
    STORE(_Float16, dst, (_Float16)d);
    STORE(s8x16, dst + 2, CONVERT(CONVERT(__builtin_elementwise_roundeven(x0 * inverse), i32x16), s8x16));
    STORE(s8x16, dst + 18, CONVERT(CONVERT(__builtin_elementwise_roundeven(x1 * inverse), i32x16), s8x16));
  }
}

void LEVEL(from_q4_0)(const struct convert_args *a) {
  const uint8_t *src = a->src;
  float *dst = a->dst;
  for (int64_t i = 0; i < a->n; i += 32, src += Q4_BYTES) {
    const float d = (float)LOAD(_Float16, src);
    const u8x16 q = LOAD(u8x16, src + 2);
    STORE(f32x16, dst + i, d * CONVERT(CONVERT(q & 15, i32x16) - 8, f32x16));
    STORE(f32x16, dst + i + 16, d * CONVERT(CONVERT(q >> 4, i32x16) - 8, f32x16));
  }
}

// The scale of a block is chosen so that the value of largest magnitude becomes -8. It is negative
// if that value is positive.
void LEVEL(to_q4_0)(const struct convert_args *a) {
  const float *src = a->src;
  uint8_t *dst = a->dst;
  for (int64_t i = 0; i < a->n; i += 32, dst += Q4_BYTES) {
    const f32x16 x0 = LOAD(f32x16, src + i), x1 = LOAD(f32x16, src + i + 16);
    const float high = max_of(__builtin_elementwise_max(x0, x1)), low = -max_of(__builtin_elementwise_max(-x0, -x1));
    const float d = (high > -low ? high : low) * (1.0f / -8);
    const float size = d < 0 ? -d : d;
    const float inverse = size > 0x1p-120f ? 1 / d : 0;
    STORE(_Float16, dst, (_Float16)d);
    const i32x16 most = (i32x16){0} + 15;
    const i32x16 q0 = __builtin_elementwise_min(CONVERT(x0 * inverse + 8.5f, i32x16), most);
    const i32x16 q1 = __builtin_elementwise_min(CONVERT(x1 * inverse + 8.5f, i32x16), most);
    STORE(u8x16, dst + 2, CONVERT(q0 | q1 << 4, u8x16));
  }
}
