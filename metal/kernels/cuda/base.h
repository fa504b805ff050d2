// Shared by all files of this folder. They compile with NVRTC, without any headers. The backend
// defines the names in capitals that no file defines (metal/defines.go).
//
// Weights stay quantised, and activations are quantised to 12 bits in blocks of 32. Tensor cores
// multiply both as float16: the integers of a block become float16 numbers without rounding, and
// the product of two blocks is an integer below 2^24, which float32 holds exactly. So it does not
// depend on the order of the sum. It is then scaled in float32. Products of blocks are added in
// float32 in a fixed order: strand s adds the blocks from s*n/8 to (s+1)*n/8-1 in ascending order,
// where n is the number of blocks; then the strands are added in ascending order. All kernels use
// this order, so that a row has the same bits for every number of rows.
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

// add_halves adds two pairs of float16, and scale_halves computes a*by+c.
__device__ inline uint add_halves(uint a, uint b) {
    uint v;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
__device__ inline uint scale_halves(uint a, uint by, uint c) {
    uint v;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(by), "r"(c));
    return v;
}

// dots16 adds the dot products of 16 rows of weights with 8 rows of activations over 16 values.
// Lane 4r+q passes four values of weight row r in a[0] and a[2], of row r+8 in a[1] and a[3], and
// the same values of activation row r in b0 and b1. It receives the products of weight row r with
// activation rows 2q and 2q+1 in c[0] and c[1], and the products of weight row r+8 with the same
// activation rows in c[2] and c[3].
__device__ inline void dots16(float* c, const uint* a, uint b0, uint b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// strand_begin returns the first block of a strand, for rows with the given number of blocks.
__device__ inline uint strand_begin(uint strand, uint blocks) { return strand * blocks / strands; }

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

// copy_early starts to copy 8 or 16 bytes to shared memory. copied ends a group of such copies, and
// wait_but<N> waits for all groups of the thread but the last N.
template <int bytes>
__device__ inline void copy_early(void* to, const uchar* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(uint(__cvta_generic_to_shared(to))), "l"(from), "n"(bytes) : "memory");
}
__device__ inline void copied() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N>
__device__ inline void wait_but() {
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}


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
