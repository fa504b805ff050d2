// Arguments of the kernels. Each struct has the layout of its counterpart in args.go: every field takes 8 bytes.
#pragma once
#include <stdint.h>

// scale describes a block of 32 activations of 8 bits: its scale, and its sums in the forms that the kernels add.
struct scale {
  float d;         // an activation is d times its byte
  float sum;       // d times the sum of the bytes
  int32_t minus8;  // -8 times the sum of the bytes
  int32_t first8;  // -8 times the sum of the first 16 bytes
};

struct product_args {
  const uint8_t *w;          // packed weights: groups of 16 rows
  const void *x;             // activations: int8_t in blocks of 32, or float for float weights
  const struct scale *scales;  // of the blocks of x; unused for float weights
  float *out;
  const int64_t *in;     // [rows] where a row starts in x, in blocks; in values for float weights
  const int64_t *at;     // [rows] where a row's results start, in values from out
  const float *factors;  // [rows] results are added times these; null to set them
  int64_t rows;
  int64_t groups;
  int64_t blocks;  // of 32 weights in a row; weights for float weights
};

struct quantize_args {
  const float *x;
  int8_t *q;
  struct scale *scales;
  int64_t blocks;
};

struct norm_args {
  float *dst;
  const float *src;
  const float *gain;
  int64_t n;
  double eps;
};

struct gate_args {
  float *dst;
  const float *gate;
  const float *up;
  int64_t n;
  int64_t kind;  // 0: silu(gate)·up; 1: gelu(gate)·up; 2: the clamped SwiGLU of gpt-oss
};

struct scores_args {
  const float *q;
  const int64_t *at;  // [queries] where a query starts, in values from q
  const void *k;      // [positions][stride]
  float *out;         // [queries][out_stride]
  int64_t queries;
  int64_t positions;
  int64_t stride;
  int64_t out_stride;
  int64_t dims;
  double scale;
  const void *next;  // what the next call reads, to be prefetched
  int64_t next_bytes;
};

struct values_args {
  const float *weights;  // [queries][weights_stride]
  const void *v;         // [positions][stride]
  float *out;
  const int64_t *at;  // [queries] where a query's result starts, in values from out
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
  int64_t id;    // result: of the highest value, the first of equals
  double value;  // result: the highest value
  double sum;    // result: of exp(x-value); infinite if a value is not finite
};

struct rotate_args {
  float *dst;
  const float *src;
  const float *angles;  // cosine and sine of each pair; with halves, all cosines, then all sines
  int64_t n;
  int64_t heads;
  int64_t dst_stride;  // from head to head
  int64_t src_stride;
  int64_t halves;  // 1 if pair i is values i and i+n/2 instead of neighbours
};

struct convert_args {
  void *dst;
  const void *src;
  int64_t n;  // values
};
