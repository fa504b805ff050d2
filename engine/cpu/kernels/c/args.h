// Arguments of the kernels. Each struct has the layout of its counterpart in args.go: every field
// takes 8 bytes.
#pragma once
#include "vec.h"

// block is 32 activations of PRECISION bits with their scale, and their sums in the forms that the
// kernels add. An activation is d times its integer, which is from -MAX_INTEGER to MAX_INTEGER.
struct block {
#if WORDS
  int16_t q[32];  // in each four, the second and the third are exchanged; see set
#else
  int8_t q[PARTS][32];  // the integer is q[0], or 256·q[0] + q[1]
#endif
  float d;
  float sum;                  // d times the sum of the integers
  float sums[2];              // d times the sum of the first, and of the last, 16 integers
  int32_t minus8, minus128;   // -8 and -128 times the sum of the integers
  int32_t minus32[2];         // -32 times the sum of the first, and of the last, 16 integers
};

// A tile is up to 16 rows of a block of 32 activations, as AMX multiplies them; see tile.h.
#define TILE_ROWS 16
struct tile {
  float d[TILE_ROWS];
  float sum[TILE_ROWS];      // as in block
  float sums[2][TILE_ROWS];  // as in block
  // [PARTS] The bfloat16 q[0][row][i], or q[0][row][i] + q[1][row][i], is an integer. In each
  // four, the second and the third are exchanged.
  uint16_t q[][TILE_ROWS][32];
};
#define TILE_BYTES(parts) (sizeof(struct tile) + (parts) * 64 * TILE_ROWS)

INLINE struct tile *tile_at(void *tiles, int64_t k) { return (struct tile *)((uint8_t *)tiles + k * TILE_BYTES(PARTS)); }

// bfloats returns the bfloat16 of integers that have at most 8 significant bits.
INLINE u16x16 bfloats(i32x16 q) { return CONVERT((u32x16)CONVERT(q, f32x16) >> 16, u16x16); }

struct product_args {
  const uint8_t *w;          // packed weights: groups of 16 rows
  const void *x;         // activations: struct block, or float for float weights
  float *out;
  const int64_t *in;     // [rows] offset of each row in x: in blocks, or in values for float weights
  const int64_t *at;     // [rows] offset of each row's results from out, in values
  const float *factors;  // [rows] a row's results are multiplied with its factor and added to out; null to write them
  int64_t rows;
  int64_t groups;
  int64_t blocks;  // number of blocks of 32 weights in a row or, for float weights, the number of weights in a row
  // Of products of tiles:
  int64_t tile_rows;   // number of rows of activations in each tile but the last, which may have fewer
  int64_t tile_bytes;  // size of a tile
  struct tile_memory *memory;
};

// prefetch_block prefetches weights while a block of n bytes at w is multiplied. With several rows,
// weights are read more slowly, and the processor then prefetches fewer weights by itself. A
// prefetch into the second-level cache can wait for memory longer than one into the first. How far
// and into which cache is best was measured on Zen 4.
INLINE void prefetch_block(const uint8_t *w, const int n, const int ALONE) {
#if LANES >= 8 // not on NEON, where the gain of prefetching was not measured
  const int WIDE = n > 400;
  if (ALONE || !WIDE) UNROLL for (int at = 0; at < n; at += 64) __builtin_prefetch(w + at + 4096, 0, 3);
  if (!ALONE && (WIDE || LANES == 16)) UNROLL for (int at = 0; at < n; at += 64) __builtin_prefetch(w + at + 16384, 0, 2);
#endif
}

struct quantise_args {
  const float *x;
  void *out;       // [blocks]
  int64_t blocks;
  int64_t row;     // of tiles: the row of the tiles that is written
};

struct norm_args {
  float *dst;
  const float *src;
  const float *gain;
  int64_t n;
  double eps;
};

struct delta_args {
  float *s;
  const float *k;
  const float *q;
  const float *v;
  float *out;
  int64_t keys;
  int64_t values;
  double decay;
  double beta;
};

struct gate_args {
  float *dst;
  const float *gate;
  const float *up;
  int64_t n;
  int64_t kind;  // 0: silu(gate)·up; 1: gelu(gate)·up; 2: the clamped SwiGLU of gpt-oss
};

struct convolve_args {
  float *out;
  const float *w;  // [n][4]
  const float *x0;
  const float *x1;
  const float *x2;
  const float *x3;
  int64_t n;
};

struct soft_cap_args {
  float *x;
  int64_t n;
  double limit;
};

struct scores_args {
  const float *q;
  const int64_t *at;  // [queries] offset of each query from q, in values
  const void *k;      // [positions][stride]
  float *out;         // [queries][out_stride]
  int64_t queries;
  int64_t positions;
  int64_t stride;
  int64_t out_stride;
  int64_t dims;
  double scale;
  const void *next;  // memory that the next call reads; the kernel prefetches it
  int64_t next_bytes;
};

struct values_args {
  const float *weights;  // [queries][weights_stride]
  const void *v;         // [positions][stride]
  float *out;
  const int64_t *at;  // [queries] offset of each query's result from out, in values
  int64_t queries;
  int64_t positions;
  int64_t stride;
  int64_t weights_stride;
  int64_t dims;
  const void *next;  // as in scores_args
  int64_t next_bytes;
};

struct softmax_args {
  float *x;
  int64_t n;
};

struct highest_args {
  const float *x;
  int64_t n;
  int64_t id;    // result: index of the highest value; of equal values, the lowest index
  double value;  // result: the highest value
  double sum;    // result: sum of exp(x-value) over all values; infinite if a value is NaN or infinity
};

struct peak_args {
  const float *x;
  int64_t n;
  int64_t id;    // result: index of the highest value; of equal values, the lowest index
  double value;  // result: the highest value; infinite if a value is NaN or infinity
};

struct weigh_args {
  const float *x;
  int64_t n;
  double scale;
  double lowest;  // values below this have no weight
  int64_t top;    // exponent of the highest value of the row
  float *out;     // [n] weights; null to compute only their sum
  uint64_t sum;   // result
};

struct list_args {
  const float *x;
  int64_t n;
  double low;
  double high;
  int32_t *ids;    // [n+16] receives the indices of values from low to high
  float *values;   // [n+16] receives these values
  int64_t count;   // result: number of these values
};

struct bracket_args {
  const float *x;
  int64_t n;       // at most 65536
  double scale;    // as in weigh_args
  double lowest;   // as in weigh_args
  int64_t top;     // as in weigh_args
  double low;
  double high;
  float *values;   // [n+16] receives the values from low to high
  int64_t count;   // result: number of these values
  uint64_t sum;    // result: sum of all weights
  uint64_t above;  // result: sum of the weights of values above high
};

struct above_args {
  const float *x;
  const float *weights;
  int64_t n;
  double limit;
  uint64_t sum;  // result: sum of the weights of values above limit
};

struct rotate_args {
  float *dst;
  const float *src;
  const float *angles;  // cosine and sine of each pair; with halves, all cosines, then all sines
  int64_t n;
  int64_t heads;
  int64_t dst_stride;  // distance between heads, in values
  int64_t src_stride;
  int64_t halves;  // 1 if pair i is values i and i+n/2 instead of neighbours
};

struct convert_args {
  void *dst;
  const void *src;
  int64_t n;  // number of values
};
