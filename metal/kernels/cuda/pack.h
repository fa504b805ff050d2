// Packing of the weights of GGUF files, and rows of packed weights as float32.
#include "weights.h"

struct PackArgs {
    uint blocks;     // of 32 weights in a row
    uint row_bytes;  // in the file
    uint rows;       // per matrix
    uint groups;     // per matrix; missing rows of the last group are zeros
};

// Words writes all integers of a lane. Plane writes the bits above the low four, which types of
// five and six bits store separately, to the place where W::values expects them.
template <class W> struct Plane {
    static __device__ void put(uchar*, uint, const int*) {}
};
// bits packs count bits of each of a lane's 16 integers, beginning with bit 4. The integers are
// four words of four bytes. The bits of byte i of the four words become neighbours.
__device__ inline uint bits(const int* v, uint count) {
    uint all = 0;
    for (uint j = 0; j < 4; j++) {
        for (uint i = 0; i < 4; i++) all |= (uint(v[4 * j + i]) >> 4 & ((1 << count) - 1)) << (4 * count * i + count * j);
    }
    return all;
}
template <> struct Plane<Q5_0> {
    static __device__ void put(uchar* p, uint lane, const int* v) { *(ushort*)(p + 256 + 2 * lane) = bits(v, 1); }
};
template <> struct Plane<Q5_1> : Plane<Q5_0> {};
template <> struct Plane<Q5_K> : Plane<Q5_0> {};
template <> struct Plane<Q6_K> {
    static __device__ void put(uchar* p, uint lane, const int* v) { *(uint*)(p + 256 + 4 * lane) = bits(v, 2); }
};

template <class W> struct Words {
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w[2] = {0, 0};
        for (uint i = 0; i < 4; i++) {
            for (uint row = 0; row < 2; row++) w[row] |= (v[4 * row + i] & 15) << (8 * i) | uint(v[4 * row + 8 + i] & 15) << (8 * i + 4);
        }
        *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
        Plane<W>::put(p, lane, v);
    }
};
template <> struct Words<Q8_0> {
    static __device__ void put(uchar* p, uint lane, const int* v) {
        for (uint j = 0; j < 4; j++) {
            uint w = 0;
            for (uint i = 0; i < 4; i++) w |= uint(v[4 * j + i] & 255) << (8 * i);
            ((uint*)(p + 16 * lane))[j] = w;
        }
    }
};

// pack packs matrices. A warp takes a block of a group. Grid: (groups per matrix, blocks / warps of
// a threadgroup, matrices).
template <class W>
__device__ void pack(const uchar* from, uchar* to, const PackArgs& args) {
    uint lane = threadIdx.x % 32, r = lane / 4, q = lane % 4, b = blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32;
    wait_for_previous();
    if (b >= args.blocks) return;
    from += ulong(blockIdx.z) * args.rows * args.row_bytes;
    uchar* super = (uchar*)super_block<W>(to + (ulong(blockIdx.z) * args.groups + blockIdx.x) * group_bytes<W>(args.blocks), b);
    uchar* unit = (uchar*)block<W>(super, b);
    int v[16];
    for (uint j = 0; j < 4; j++) {
        uint row = blockIdx.x * group_rows + r + 8 * (j % 2);
        for (uint i = 0; i < 4; i++) {
            v[4 * j + i] = row < args.rows ? W::quant(from + ulong(row) * args.row_bytes, 32 * b + 4 * q + 16 * (j / 2) + i) : 0;
        }
    }
    Words<W>::put(unit, lane, v);
    if (q == 0) { // missing rows keep the scale 0 of a new buffer
        for (uint h = 0; h < 2; h++) {
            uint row = blockIdx.x * group_rows + r + 8 * h;
            if (row < args.rows) W::put(unit, super, from + ulong(row) * args.row_bytes, b, r + 8 * h);
        }
    }
}

struct EmbedArgs {
    uint blocks;
    uint token_stride;
    uint dst_stride;
};

// embed writes the rows of a packed matrix that are the embeddings of tokens. Four lanes take a
// block. Grid: (4·blocks / threads, rows).
template <class W>
__device__ void embed(const uchar* table, const float* tokens, float* dst, const EmbedArgs& args) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x, b = i / 4, q = i % 4;
    wait_for_previous();
    if (b >= args.blocks) return;
    uint row = uint(tokens[blockIdx.y * args.token_stride]), r = row % group_rows;
    const uchar* super = super_block<W>(table + row / group_rows * group_bytes<W>(args.blocks), b);
    typename W::Registers registers;
    W::load(block<W>(super, b), super, r % 8 * 4 + q, registers);
    uint a[4];
    W::values(registers, a);
    Scales s = W::scales(registers);
    dst += ulong(blockIdx.y) * args.dst_stride + 32 * b + 4 * q;
    for (uint half = 0; half < 2; half++) {
        float d = r < 8 ? s.d0 : s.d1, m = r < 8 ? s.m0 : s.m1;
        d *= half_scale<W>(registers, r / 8, half);
        uint word = r < 8 ? a[2 * half] : a[2 * half + 1];
        for (uint k = 0; k < 4; k++) dst[16 * half + k] = fmaf(d, float(int(word << (24 - 8 * k)) >> 24), m);
    }
}
