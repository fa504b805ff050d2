// The types of weights, packed for tensor cores. 16 rows form a group. A block of 32 columns of a
// group is contiguous: lane 4r+q of a warp finds values 4q to 4q+3 and 4q+16 to 4q+19 of rows r and
// r+8 side by side, and the scales follow. The size is the same as in GGUF, except that Q4_K and
// Q5_K take 4 more bytes per 256 weights, since each scale has its own byte.
//
// Each type has
//   minimum, halves        1 if blocks have minimums; 1 if each half of a block has a scale
//   per, header, unit      blocks per super-block, bytes of a super-block's header, bytes of a block
//   load(p, s, lane, r)    reads a lane's share of the block at p in the super-block at s
//   load4(p, s, r, q)      reads the shares of lanes 4r to 4r+3, for a lane that takes rows r and r+8
//   values(r, a)           the weights as 8-bit integers, in the order of dots32
//   scales(r)              their scales and minimums
//   quant(row, k)          the integer of weight k of a row in a GGUF file
//   put(p, s, row, b, r)   writes the scales of block b of a GGUF row as row r of a group
#include "base.h"

// Scales are the scales d and minimums m of rows r (d0, m0) and r+8 (d1, m1): a weight is d times
// its integer plus m.
struct Scales {
    float d0, d1, m0, m1;
};

__device__ inline uint low_half(uint v) { return v & 0xffff; }

__device__ inline uint read2(const uchar* p) { return p[0] | p[1] << 8; }
__device__ inline void write2(uchar* p, uint v) { *(ushort*)p = v; }

// unsigned_nibbles unpacks unsigned numbers of four bits.
__device__ inline void unsigned_nibbles(uint2 v, uint* a) {
    a[0] = v.x & 0x0f0f0f0f;
    a[1] = v.y & 0x0f0f0f0f;
    a[2] = v.x >> 4 & 0x0f0f0f0f;
    a[3] = v.y >> 4 & 0x0f0f0f0f;
}

// nibbles4 reads the nibbles of rows r and r+8 of a block for load4.
template <class Registers>
__device__ inline void nibbles4(const uchar* p, uint r, Registers* q) {
    uint4 a = *(const uint4*)(p + 32 * r), b = *(const uint4*)(p + 32 * r + 16);
    q[0].q = make_uint2(a.x, a.y);
    q[1].q = make_uint2(a.z, a.w);
    q[2].q = make_uint2(b.x, b.y);
    q[3].q = make_uint2(b.z, b.w);
}

// spread moves four nibbles to the low halves of four bytes. Nibble i has the fifth bits of integer
// i of each word.
__device__ inline uint spread(uint v) { return __byte_perm(v, v >> 4, 0x5140); }

struct NoMinimum {
    enum { minimum = 0, halves = 0 };
};

struct Q4_0 : NoMinimum {
    enum { Q4_0_SIZES };
    struct Registers {
        uint2 q;
        uint d;
    };
    static __device__ void load(const uchar* p, const uchar*, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.d = *(const uint*)(p + 256 + lane / 4 * 4);
    }
    // Signed numbers of four bits become the high bits of bytes, which multiplies them by 16.
    static __device__ void values(const Registers& r, uint* a) {
        a[0] = r.q.x << 4 & 0xf0f0f0f0;
        a[1] = r.q.y << 4 & 0xf0f0f0f0;
        a[2] = r.q.x & 0xf0f0f0f0;
        a[3] = r.q.y & 0xf0f0f0f0;
    }
    static __device__ Scales scales(const Registers& r) { return {half_float(low_half(r.d)) * 0.0625f, half_float(r.d >> 16) * 0.0625f, 0, 0}; }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
    }
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 18;
        uint q = b[2 + k % 16];
        return int(k % 32 < 16 ? q & 15 : q >> 4) - 8;
    }
    static __device__ void put(uchar* p, uchar*, const uchar* row, uint b, uint r) { write2(p + 256 + r % 8 * 4 + r / 8 * 2, read2(row + b * 18)); }
};

struct Q4_1 {
    enum { minimum = 1, halves = 0, Q4_1_SIZES };
    struct Registers {
        uint2 q, dm;
    };
    static __device__ void load(const uchar* p, const uchar*, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.dm = *(const uint2*)(p + 256 + lane / 4 * 8);
    }
    static __device__ void values(const Registers& r, uint* a) { unsigned_nibbles(r.q, a); }
    static __device__ Scales scales(const Registers& r) {
        return {half_float(low_half(r.dm.x)), half_float(low_half(r.dm.y)), half_float(r.dm.x >> 16), half_float(r.dm.y >> 16)};
    }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
    }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 20 + 4 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
    static __device__ void put(uchar* p, uchar*, const uchar* row, uint b, uint r) {
        write2(p + 256 + r % 8 * 8 + r / 8 * 4, read2(row + b * 20));
        write2(p + 256 + r % 8 * 8 + r / 8 * 4 + 2, read2(row + b * 20 + 2));
    }
};

__device__ inline int five(uint q, uint high, uint k) { return (k < 16 ? q & 15 : q >> 4) | (high >> k & 1) << 4; }

struct Q5_0 : NoMinimum {
    enum { Q5_0_SIZES };
    struct Registers {
        uint2 q;
        uint d;
        ushort high;
    };
    static __device__ void load(const uchar* p, const uchar*, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const ushort*)(p + 256 + 2 * lane);
        r.d = *(const uint*)(p + 320 + lane / 4 * 4);
    }
    // A signed five-bit number goes into the upper five bits of a byte. Its value is then
    // multiplied by 8.
    static __device__ void values(const Registers& r, uint* a) {
        uint h = spread(r.high);
        a[0] = (r.q.x << 3 & 0x78787878) | (h << 7 & 0x80808080);
        a[1] = (r.q.y << 3 & 0x78787878) | (h << 6 & 0x80808080);
        a[2] = (r.q.x >> 1 & 0x78787878) | (h << 5 & 0x80808080);
        a[3] = (r.q.y >> 1 & 0x78787878) | (h << 4 & 0x80808080);
    }
    static __device__ Scales scales(const Registers& r) { return {half_float(low_half(r.d)) * 0.125f, half_float(r.d >> 16) * 0.125f, 0, 0}; }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
        uint2 high = *(const uint2*)(p + 256 + 8 * r);
        q[0].high = low_half(high.x), q[1].high = high.x >> 16, q[2].high = low_half(high.y), q[3].high = high.y >> 16;
    }
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 22;
        return five(b[6 + k % 16], read2(b + 2) | read2(b + 4) << 16, k % 32) - 16;
    }
    static __device__ void put(uchar* p, uchar*, const uchar* row, uint b, uint r) { write2(p + 320 + r % 8 * 4 + r / 8 * 2, read2(row + b * 22)); }
};

// unsigned_fives unpacks unsigned numbers of five bits.
__device__ inline void unsigned_fives(uint2 q, uint high, uint* a) {
    uint h = spread(high);
    unsigned_nibbles(q, a);
    a[0] |= h << 4 & 0x10101010;
    a[1] |= h << 3 & 0x10101010;
    a[2] |= h << 2 & 0x10101010;
    a[3] |= h << 1 & 0x10101010;
}

struct Q5_1 {
    enum { minimum = 1, halves = 0, Q5_1_SIZES };
    struct Registers {
        uint2 q, dm;
        ushort high;
    };
    static __device__ void load(const uchar* p, const uchar*, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const ushort*)(p + 256 + 2 * lane);
        r.dm = *(const uint2*)(p + 320 + lane / 4 * 8);
    }
    static __device__ void values(const Registers& r, uint* a) { unsigned_fives(r.q, r.high, a); }
    static __device__ Scales scales(const Registers& r) {
        return {half_float(low_half(r.dm.x)), half_float(low_half(r.dm.y)), half_float(r.dm.x >> 16), half_float(r.dm.y >> 16)};
    }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
        uint2 high = *(const uint2*)(p + 256 + 8 * r);
        q[0].high = low_half(high.x), q[1].high = high.x >> 16, q[2].high = low_half(high.y), q[3].high = high.y >> 16;
    }
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 24;
        return five(b[8 + k % 16], read2(b + 4) | read2(b + 6) << 16, k % 32);
    }
    static __device__ void put(uchar* p, uchar*, const uchar* row, uint b, uint r) {
        write2(p + 320 + r % 8 * 8 + r / 8 * 4, read2(row + b * 24));
        write2(p + 320 + r % 8 * 8 + r / 8 * 4 + 2, read2(row + b * 24 + 2));
    }
};

struct Q8_0 : NoMinimum {
    enum { Q8_0_SIZES };
    struct Registers {
        uint4 q;
        uint d;
    };
    static __device__ void load(const uchar* p, const uchar*, uint lane, Registers& r) {
        r.q = *(const uint4*)(p + 16 * lane);
        r.d = *(const uint*)(p + 512 + lane / 4 * 4);
    }
    static __device__ void values(const Registers& r, uint* a) {
        a[0] = r.q.x;
        a[1] = r.q.y;
        a[2] = r.q.z;
        a[3] = r.q.w;
    }
    static __device__ Scales scales(const Registers& r) { return {half_float(low_half(r.d)), half_float(r.d >> 16), 0, 0}; }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        UNROLL for (uint i = 1; i < 4; i++) q[i].q = *(const uint4*)(p + 64 * r + 16 * i);
    }
    static __device__ int quant(const uchar* row, uint k) { return (signed char)row[k / 32 * 34 + 2 + k % 32]; }
    static __device__ void put(uchar* p, uchar*, const uchar* row, uint b, uint r) { write2(p + 512 + r % 8 * 4 + r / 8 * 2, read2(row + b * 34)); }
};

// The header of a super-block of the K types has d and dmin of each row as float16. The values of
// rows r and r+8 are side by side. A block has a 6-bit scale and a 6-bit minimum per row, each in
// one byte.
__device__ inline Scales k_scales(uint2 super, uint bytes) {
    float d0 = half_float(low_half(super.x)), e0 = -half_float(super.x >> 16);
    float d1 = half_float(low_half(super.y)), e1 = -half_float(super.y >> 16);
    return {
        d0 * float(bytes & 255), d1 * float(bytes >> 16 & 255),
        e0 * float(bytes >> 8 & 255), e1 * float(bytes >> 24),
    };
}

// k_put writes scale and minimum of block j of a super-block to bytes, and with block 0 also d and
// dmin to the header.
__device__ inline void k_put(uchar* bytes, uchar* super, const uchar* source, uint j, uint r) {
    const uchar* q = source + 4;
    uint scale = j < 4 ? q[j] & 63 : (q[j + 4] & 15) | (q[j - 4] >> 6 << 4);
    uint minimum = j < 4 ? q[j + 4] & 63 : (q[j + 4] >> 4) | (q[j] >> 6 << 4);
    write2(bytes + r % 8 * 4 + r / 8 * 2, scale | minimum << 8);
    if (j == 0) {
        write2(super + r % 8 * 8 + r / 8 * 4, read2(source));
        write2(super + r % 8 * 8 + r / 8 * 4 + 2, read2(source + 2));
    }
}

struct Q4_K {
    enum { minimum = 1, halves = 0, Q4_K_SIZES };
    struct Registers {
        uint2 q, super;
        uint bytes;
    };
    static __device__ void load(const uchar* p, const uchar* s, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.bytes = *(const uint*)(p + 256 + lane / 4 * 4);
        r.super = *(const uint2*)(s + lane / 4 * 8);
    }
    static __device__ void values(const Registers& r, uint* a) { unsigned_nibbles(r.q, a); }
    static __device__ Scales scales(const Registers& r) { return k_scales(r.super, r.bytes); }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
    }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 256 * 144 + 16 + k % 256 / 64 * 32 + k % 32];
        return k % 64 < 32 ? q & 15 : q >> 4;
    }
    static __device__ void put(uchar* p, uchar* s, const uchar* row, uint b, uint r) { k_put(p + 256, s, row + b / 8 * 144, b % 8, r); }
};

struct Q5_K {
    enum { minimum = 1, halves = 0, Q5_K_SIZES };
    struct Registers {
        uint2 q, super;
        uint bytes;
        ushort high;
    };
    static __device__ void load(const uchar* p, const uchar* s, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const ushort*)(p + 256 + 2 * lane);
        r.bytes = *(const uint*)(p + 320 + lane / 4 * 4);
        r.super = *(const uint2*)(s + lane / 4 * 8);
    }
    static __device__ void values(const Registers& r, uint* a) { unsigned_fives(r.q, r.high, a); }
    static __device__ Scales scales(const Registers& r) { return k_scales(r.super, r.bytes); }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
        uint2 high = *(const uint2*)(p + 256 + 8 * r);
        q[0].high = low_half(high.x), q[1].high = high.x >> 16, q[2].high = low_half(high.y), q[3].high = high.y >> 16;
    }
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 176;
        uint j = k % 256 / 32, q = b[48 + j / 2 * 32 + k % 32];
        return (j % 2 == 0 ? q & 15 : q >> 4) | (b[16 + k % 32] >> j & 1) << 4;
    }
    static __device__ void put(uchar* p, uchar* s, const uchar* row, uint b, uint r) { k_put(p + 320, s, row + b / 8 * 176, b % 8, r); }
};

// A block of Q6_K has a scale for each 16 weights.
struct Q6_K {
    enum { minimum = 0, halves = 1, Q6_K_SIZES };
    struct Registers {
        uint2 q;
        uint high, bytes, d;
    };
    static __device__ void load(const uchar* p, const uchar* s, uint lane, Registers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const uint*)(p + 256 + 4 * lane);
        r.bytes = *(const uint*)(p + 384 + lane / 4 * 4);
        r.d = *(const uint*)(s + lane / 4 * 4);
    }
    // Signed numbers of six bits become the high bits of bytes, which multiplies them by 4.
    static __device__ void values(const Registers& r, uint* a) {
        a[0] = (r.q.x << 2 & 0x3c3c3c3c) | (r.high << 6 & 0xc0c0c0c0);
        a[1] = (r.q.y << 2 & 0x3c3c3c3c) | (r.high << 4 & 0xc0c0c0c0);
        a[2] = (r.q.x >> 2 & 0x3c3c3c3c) | (r.high << 2 & 0xc0c0c0c0);
        a[3] = (r.q.y >> 2 & 0x3c3c3c3c) | (r.high & 0xc0c0c0c0);
    }
    static __device__ Scales scales(const Registers& r) { return {half_float(low_half(r.d)) * 0.25f, half_float(r.d >> 16) * 0.25f, 0, 0}; }
    // half_scale returns the scale of the first or second 16 weights of row r (0) or r+8 (1).
    static __device__ float half_scale(const Registers& r, uint row, uint half) { return float(int(r.bytes << (24 - 16 * row - 8 * half)) >> 24); }
    static __device__ void load4(const uchar* p, const uchar* s, uint r, Registers* q) {
        load(p, s, 4 * r, q[0]);
        nibbles4(p, r, q);
        uint4 high = *(const uint4*)(p + 256 + 16 * r);
        q[0].high = high.x, q[1].high = high.y, q[2].high = high.z, q[3].high = high.w;
    }
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 210;
        uint h = k % 256 / 128, l = k % 32, quarter = k % 128 / 32;
        uint low = b[64 * h + l + 32 * (quarter & 1)] >> (quarter / 2 * 4) & 15, high = b[128 + 32 * h + l] >> (2 * quarter) & 3;
        return int(low | high << 4) - 32;
    }
    static __device__ void put(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 210;
        p[384 + r % 8 * 4 + r / 8 * 2] = source[192 + 2 * (b % 8)];
        p[384 + r % 8 * 4 + r / 8 * 2 + 1] = source[192 + 2 * (b % 8) + 1];
        if (b % 8 == 0) write2(s + r % 8 * 4 + r / 8 * 2, read2(source + 208));
    }
};

// group_bytes returns the size of a group whose rows have the given number of blocks.
template <class W>
__device__ inline ulong group_bytes(uint blocks) { return ulong(blocks / W::per) * (W::header + W::per * W::unit); }

// super_block and block return the addresses of the super-block of block b and of block b itself.
template <class W>
__device__ inline const uchar* super_block(const uchar* group, uint b) { return group + b / W::per * (W::header + W::per * W::unit); }
template <class W>
__device__ inline const uchar* block(const uchar* super, uint b) { return super + W::header + b % W::per * W::unit; }

// half_scale returns W::half_scale, or 1 for types whose blocks have one scale.
template <class W>
__device__ inline float half_scale(const typename W::Registers&, uint, uint) { return 1; }
template <>
__device__ inline float half_scale<Q6_K>(const Q6_K::Registers& r, uint row, uint half) { return Q6_K::half_scale(r, row, half); }
