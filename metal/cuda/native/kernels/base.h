// Integer products on NVIDIA's GPUs: what all files of this folder share. The sources compile with NVRTC, which has no headers.
//
// Activations are quantised to 8 bits in blocks of 32. A block of a row of weights times a block of activations is an exact
// integer, so the order inside a block is free; tensor cores compute it. Only blocks are added in float32, and in one order
// everywhere: strand s adds the blocks b with b%8 == s, ascending, and the strands are added as a tree, (s, s+4), (s, s+2),
// (s, s+1). A warp takes a strand. So a row has the same bits for every number of rows and in every kernel.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define UNROLL _Pragma("unroll")

enum {
    strands = 8,
    group_rows = 16,    // rows of weights that are packed together
    column_bytes = 320, // a block of 8 rows of activations: see activations.h
};

__device__ inline float half_float(uint bits) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(ushort(bits)));
    return v;
}

// magic is 1.5·2^23, the bits of which an integer below 2^22 is added to: the sum, as a float, is magic plus the integer.
#define MAGIC_BITS 0x4b400000
#define MAGIC 12582912.0f

// number is the integer that has been added to the bits of magic.
__device__ inline float number(int bits) { return __int_as_float(bits) - MAGIC; }

// dots32 are the dot products of 16 rows of weights with 8 of activations over 32 values, added to the bits of magic. Lane
// 4r+q has values 4q to 4q+3 of row r in a[0], of row r+8 in a[1], and values 16 further of these in a[2] and a[3]; b[0] and
// b[1] are the same values of activations r. It gets rows r and r+8 of weights with activations 2q and 2q+1: c[0] and c[1],
// c[2] and c[3].
__device__ inline void dots32(int* c, const uint* a, uint2 b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(MAGIC_BITS));
}

// dots16 is dots32 over 16 values.
__device__ inline void dots16(int* c, uint a0, uint a1, uint b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(MAGIC_BITS));
}

__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }

__device__ inline float4 read_four(const float* p) {
    if (ulong(p) % 16 == 0) return *(const float4*)p;
    return make_float4(p[0], p[1], p[2], p[3]);
}

// Place is a row's entry in the slot mapping, as in pages.h.
struct Place {
    uint position, slot, pages;
};
