// Shared by all files of this folder. They compile with NVRTC, without any headers. The backend
// defines the names in capitals that no file defines (metal/defines.go).
//
// Weights stay quantised, and activations are quantised to 8 bits in blocks of 32. The product of
// two blocks is computed from their integers, so it is an exact integer, whatever the order of the
// sum, also on tensor cores. It is then scaled in float32. Products of blocks are added in float32
// in a fixed order: strand s adds the blocks b with b%8 == s in ascending order; then the strands
// are added as a tree, (s, s+4), (s, s+2), (s, s+1). All kernels use this order, so that a row has
// the same bits for every number of rows.
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

__device__ inline float half_float(uint bits) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(ushort(bits)));
    return v;
}

// two_halves rounds two numbers to float16. a is in the low half.
__device__ inline uint two_halves(float a, float b) {
    uint v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(b), "f"(a));
    return v;
}

// MAGIC is 1.5·2^23. Adding an integer below 2^22 to the bits of MAGIC gives the bits of the float
// MAGIC plus that integer. So an integer sum that starts from MAGIC_BITS needs no conversion to
// float.
#define MAGIC_BITS 0x4b400000
#define MAGIC 12582912.0f

// number returns the integer that was added to MAGIC_BITS.
__device__ inline float number(int bits) { return __int_as_float(bits) - MAGIC; }

// dots32 computes the dot products of 16 rows of weights with 8 rows of activations over 32 values,
// plus MAGIC_BITS. Lane 4r+q passes values 4q to 4q+3 of weight row r in a[0] and of row r+8 in
// a[1], values 4q+16 to 4q+19 of the same rows in a[2] and a[3], and the same values of activation
// row r in b. It receives the products of weight row r with activation rows 2q and 2q+1 in c[0] and
// c[1], and the products of weight row r+8 with the same activation rows in c[2] and c[3].
__device__ inline void dots32(int* c, const uint* a, uint2 b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(MAGIC_BITS));
}

// dots16 is dots32 over the first or the second 16 values.
__device__ inline void dots16(int* c, uint a0, uint a1, uint b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%7,%7,%7,%7};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(MAGIC_BITS));
}

// wait_for_previous waits for the kernels before this one, and lets the kernel after this one
// start. Kernels of a graph may start while the kernel before them runs (see metal/cuda/graph.go),
// so every kernel calls wait_for_previous before it reads or writes what other kernels write.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" : : : "memory");
#endif
}

// prefetch reads memory into the L2 cache before it is used. It does not wait.
__device__ inline void prefetch(const void* p, uint bytes, uint thread, uint threads) {
    for (uint at = 128 * thread; at < bytes; at += 128 * threads) asm volatile("prefetch.global.L2 [%0];" : : "l"((const uchar*)p + at));
}

// stage starts to copy data to shared memory. The number of bytes is a multiple of 16. After each
// thread has called staged, and then a barrier, all threads see the copy.
__device__ inline void stage(void* to, const uchar* from, uint bytes, uint thread, uint threads) {
    uint at = uint(__cvta_generic_to_shared(to));
    for (uint i = 16 * thread; i < bytes; i += 16 * threads) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at + i), "l"(from + i) : "memory");
}
__device__ inline void staged() { asm volatile("cp.async.wait_all;" : : : "memory"); }

__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }

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

// Slot is a row's entry in the slot mapping, as in pages.h.
struct Slot {
    uint position, slot, pages;
};
