// The types of KV pages, whose layout is that of pages.h. Each has
//   row_bytes(dims)  bytes of a row
//   aligned          1 if rows begin at multiples of 16 bytes
//   eight(row, d)    values d to d+7 as float16; d is a multiple of 8
#include "base.h"

struct PageF16 {
    enum { aligned = 1 };
    static __device__ uint row_bytes(uint dims) { return 2 * dims; }
    static __device__ uint4 eight(const uchar* row, uint d) { return *(const uint4*)(row + 2 * d); }
};

// scaled_bytes returns the four bytes of v, minus a number, times the scale. less is -(1024 plus
// that number) as two float16, and scale the scale likewise.
__device__ inline uint2 scaled_bytes(uint v, uint less, uint scale) {
    uint a = add_halves(__byte_perm(v, 0x64646464, 0x5140), less), b = add_halves(__byte_perm(v, 0x64646464, 0x7362), less); // 0x6400 is 1024
    return make_uint2(scale_halves(a, scale, 0x80008000), scale_halves(b, scale, 0x80008000));
}

// read_block_bytes reads eight bytes at an even address.
__device__ inline uint2 read_block_bytes(const uchar* p) {
    const ushort* h = (const ushort*)p;
    return make_uint2(h[0] | uint(h[1]) << 16, h[2] | uint(h[3]) << 16);
}

struct PageQ8_0 {
    enum { aligned = 0 };
    static __device__ uint row_bytes(uint dims) { return dims / 32 * 34; }
    static __device__ uint4 eight(const uchar* row, uint d) {
        const uchar* b = row + d / 32 * 34;
        uint scale = *(const ushort*)b * 0x10001u;
        uint2 v = read_block_bytes(b + 2 + d % 32), low = scaled_bytes(v.x ^ 0x80808080, 0xe480e480, scale), high = scaled_bytes(v.y ^ 0x80808080, 0xe480e480, scale);
        return make_uint4(low.x, low.y, high.x, high.y);
    }
};

struct PageQ4_0 {
    enum { aligned = 0 };
    static __device__ uint row_bytes(uint dims) { return dims / 32 * 18; }
    static __device__ uint4 eight(const uchar* row, uint d) {
        const uchar* b = row + d / 32 * 18;
        uint scale = *(const ushort*)b * 0x10001u, shift = d / 16 % 2 * 4;
        uint2 v = read_block_bytes(b + 2 + d % 16);
        uint2 low = scaled_bytes(v.x >> shift & 0x0f0f0f0f, 0xe408e408, scale), high = scaled_bytes(v.y >> shift & 0x0f0f0f0f, 0xe408e408, scale);
        return make_uint4(low.x, low.y, high.x, high.y);
    }
};
