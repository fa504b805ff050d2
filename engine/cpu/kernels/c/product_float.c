// Products of float weights with float activations: F32, and F16 and BF16 if their rows are not
// whole blocks of 32. Weights are packed in groups of 16 rows, with 16 values for each column.
#include "args.h"
#include "vec.h"

INLINE f32v f32_load(const uint8_t *p) { return LOAD(f32v, p); }
INLINE f32v f16_load(const uint8_t *p) { return halves(p); }
INLINE f32v bf16_load(const uint8_t *p) { return (f32v)(CONVERT(LOAD(u16v, p), u32v) << 16); }

#define NAME f32
#define SIZE 4
#include "product_float.h"
#define NAME f16
#define SIZE 2
#include "product_float.h"
#define NAME bf16
#define SIZE 2
#include "product_float.h"
