// Shared by all files of this folder. They compile with NVRTC, without any headers. The backend
// defines the names in capitals that no file defines (metal/defines.go).
//
// Weights stay quantised in memory. Kernels make float16 numbers of them, which tensor cores
// multiply with activations in float16 and add in float32. A product's sum has a fixed order:
// strand s has the blocks of 32 values from s*n/8 to (s+1)*n/8-1, where n is the number of blocks.
// A strand begins at 0, and tensor cores add to it 16 values at a time, in ascending order. Then
// the strands are added in ascending order. All kernels use the same instruction in this order, so
// that a row has the same bits for every number of rows.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define UNROLL _Pragma("unroll")

enum {
    strands = ALL_STRANDS,
    group_rows = GROUP_ROWS,     // rows of weights that are packed together
    column_bytes = COLUMN_BYTES, // bytes of a block of 8 rows of activations; see activations.h
};

#include "instructions.h"

// add_dots adds the dot products of a block of 16 rows of weights and 8 rows of activations. Lane
// 4r+q passes eight values of weight row r in a[0], a[2], a[4] and a[6], of row r+8 in the others,
// and the same values of activation row r in x. It has the products of weight row r with activation
// rows 2q and 2q+1 in c[0] and c[1], and those of weight row r+8 in c[2] and c[3].
__device__ inline void add_dots(float* c, const uint* a, uint4 x) {
    multiply_halves(c, a[0], a[1], a[2], a[3], x.x, x.y);
    multiply_halves(c, a[4], a[5], a[6], a[7], x.z, x.w);
}

// strand_begin returns the first block of a strand, for rows with the given number of blocks.
__device__ inline uint strand_begin(uint strand, uint blocks) { return strand * blocks / strands; }

// activate returns the gated activation of a gate product x and an up product, as in defs.h. kind
// is a compute.Activation.
__device__ inline float activate(uint kind, float x, float up) {
    float inner = x;
    if (kind == 3) return fmaxf(x, 0.0f) * up;  // ReLU
    if (kind == 1) {  // gelu, approximated by tanh
        inner = 1.5957691216f * (x + 0.044715f * x * x * x);
    } else if (kind == 2) {  // the clamped SwiGLU of gpt-oss
        x = fminf(x, 7.0f);
        up = fminf(fmaxf(up, -7.0f), 7.0f) + 1.0f;
        inner = 1.702f * x;
    }
    return x / (1.0f + expf(-inner)) * up;
}

__device__ inline float warp_sum(float v) {
    UNROLL for (uint m = 16; m > 0; m /= 2) v += __shfl_xor_sync(~0u, v, m);
    return v;
}

__device__ inline float4 read_four(const float* p) {
    if (ulong(p) % 16 == 0) return *(const float4*)p;
    return make_float4(p[0], p[1], p[2], p[3]);
}

// write_four writes four neighbouring values.
__device__ inline void write_four(float* p, float4 v) {
    if (ulong(p) % 16 == 0) *(float4*)p = v;
    else p[0] = v.x, p[1] = v.y, p[2] = v.z, p[3] = v.w;
}

__device__ inline float4 plus_four(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

// add_four adds to four neighbouring values.
__device__ inline void add_four(float* p, float4 v) { write_four(p, plus_four(read_four(p), v)); }

// Slot is a row's entry in the slot mapping, as in pages.h.
struct Slot {
    uint position, slot, pages;
};
