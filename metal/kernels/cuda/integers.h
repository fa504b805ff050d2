// How the integers of weights are packed for tensor cores, and how they become float16. 16 rows
// form a group. A block of 32 columns of a group is contiguous: lane 4r+q of a warp finds values 4q
// to 4q+3 and 4q+16 to 4q+19 of rows r and r+8 side by side, and the scales follow (weights.h).
//
// An integer n below 1024 becomes float16 by its bits alone: with those of 1024 above them, they
// are the number 1024+n. Kernels then subtract 1024 and an offset, which is exact. Where the
// integers of columns 16 to 31 lie 4 bits higher, they are 1024+16n, which is divided by 16 first.
//
// Each type has
//   load(p, lane, q)  reads a lane's integers of the block at p
//   values(q, a)      the integers less the offset, as float16, in the order of add_dots
//   put(p, lane, v)   writes a lane's 16 integers as load reads them
#include "base.h"

enum : uint { half_1024 = 0x64006400, no_addend = 0x80008000 };  // pairs of 1024 and of -0

// subtract turns words of 1024+n, or of 1024+16n for those from columns 16 to 31 if high is 16,
// into n-offset.
template <uint offset, uint high>
__device__ inline void subtract(uint* a) {
    UNROLL for (uint i = 0; i < 8; i++) {
        if (i < 4 || high == 1) a[i] = add_halves(a[i], (0xe400u | offset) * 0x10001u);    // -1024-offset
        else a[i] = scale_halves(a[i], 0x2c002c00, (0xd400u + 16 * offset) * 0x10001u);  // 1/16, and -64-offset
    }
}

// spread_nibbles returns words of 1024+n and 1024+16n for nibbles. Byte i of the first word has
// values 4q+i and 4q+16+i of row r, and the second word has those of row r+8.
__device__ inline void spread_nibbles(uint2 q, uint* a) {
    UNROLL for (uint row = 0; row < 2; row++) {
        uint v = row == 0 ? q.x : q.y;
        a[row] = and_or(v, 0x000f000f, half_1024);
        a[row + 4] = and_or(v, 0x00f000f0, half_1024);
        v >>= 8;
        a[row + 2] = and_or(v, 0x000f000f, half_1024);
        a[row + 6] = and_or(v, 0x00f000f0, half_1024);
    }
}

// A lane's integers are v[0] to v[3] of row r and v[4] to v[7] of row r+8 in columns 0 to 15, then
// those in columns 16 to 31.
__device__ inline void put_nibbles(uchar* p, uint lane, const int* v) {
    uint w[2] = {0, 0};
    for (uint i = 0; i < 8; i++) w[i / 4] |= uint(v[i] & 15) << (8 * (i % 4)) | uint(v[i + 8] & 15) << (8 * (i % 4) + 4);
    *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
}

// Nibbles are unsigned integers of four bits.
template <uint offset> struct Nibbles {
    struct Integers {
        uint2 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint2*)(p + 8 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        spread_nibbles(r.q, a);
        subtract<offset, 16>(a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) { put_nibbles(p, lane, v); }
};

// Fives are unsigned integers of five bits. The fifth bits of a lane follow the nibbles.
template <uint offset> struct Fives {
    struct Integers {
        uint2 q;
        ushort high;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const ushort*)(p + 256 + 2 * lane);
    }
    // Bit j of the low byte belongs to the first value of word j of values, and bit j of the high
    // byte to the second.
    static __device__ void values(const Integers& r, uint* a) {
        spread_nibbles(r.q, a);
        uint high = __byte_perm(r.high, 0, 0x4140);
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = high << (4 - j);
            a[j] = and_or(moved, 0x00100010, a[j]);
            a[j + 4] = and_or(moved, 0x01000100, a[j + 4]);
        }
        subtract<offset, 16>(a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        put_nibbles(p, lane, v);
        uint high = 0;
        for (uint i = 0; i < 16; i++) high |= (uint(v[i]) >> 4 & 1) << (8 * (i % 4 / 2) + i / 8 * 4 + i % 2 * 2 + i / 4 % 2);
        *(ushort*)(p + 256 + 2 * lane) = high;
    }
};

// Sixes are integers of six bits from -32 to 31, stored unsigned. The upper two bits of a lane
// follow the nibbles.
struct Sixes {
    struct Integers {
        uint2 q;
        uint high;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) {
        r.q = *(const uint2*)(p + 8 * lane);
        r.high = *(const uint*)(p + 256 + 4 * lane);
    }
    // The low half of the word belongs to the first value of each word of values, the high half to
    // the second. Each has two bits for word 0, 1, 4, 5, 2, 3, 6 and 7.
    static __device__ void values(const Integers& r, uint* a) {
        spread_nibbles(r.q, a);
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = j == 0 ? r.high << 4 : j == 1 ? r.high << 2 : j == 2 ? r.high >> 4 : r.high >> 6;
            a[j] = and_or(moved, 0x00300030, a[j]);
            a[j + 4] = and_or(moved, 0x03000300, a[j + 4]);
        }
        subtract<32, 16>(a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        put_nibbles(p, lane, v);
        uint high = 0;
        for (uint i = 0; i < 16; i++) high |= (uint(v[i]) >> 4 & 3) << (16 * (i % 4 / 2) + i % 2 * 8 + i / 8 * 4 + i / 4 % 2 * 2);
        *(uint*)(p + 256 + 4 * lane) = high;
    }
};

// spread_bytes returns words of n for integers from -128 to 127, to which 128 was added.
__device__ inline void spread_bytes(uint4 q, uint* a) {
    uint words[4] = {q.x, q.y, q.z, q.w};
    UNROLL for (uint i = 0; i < 4; i++) {
        uint* to = a + i / 2 * 4 + i % 2;
        to[0] = __byte_perm(words[i], 0x64, 0x4240);
        to[2] = __byte_perm(words[i], 0x64, 0x4341);
    }
    subtract<128, 1>(a);
}

// Bytes are integers from -128 to 127, stored with 128 added.
struct Bytes {
    struct Integers {
        uint4 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint4*)(p + 16 * lane); }
    static __device__ void values(const Integers& r, uint* a) { spread_bytes(r.q, a); }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        for (uint j = 0; j < 4; j++) {
            uint w = 0;
            for (uint i = 0; i < 4; i++) w |= uint(v[4 * j + i] & 255) << (8 * i);
            ((uint*)(p + 16 * lane))[j] = w;
        }
    }
};

// Floats4 are floats of four bits, as in MXFP4: a sign, two bits of exponent and one of mantissa.
// As the upper bits of float16, they are their value times 2^-14. A word has the bits of eight
// values: in each half, those of four values of the words of columns 0 to 15, or of columns 16 to
// 31. Each value's exponent and mantissa are contiguous.
struct Floats4 {
    struct Integers {
        uint2 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint2*)(p + 8 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        UNROLL for (uint i = 0; i < 2; i++) {
            uint w = i == 0 ? r.q.x : r.q.y, *to = a + 4 * i;
            to[0] = w & 0x8e008e00;
            to[1] = w << 3 & 0x8e008e00;
            to[2] = (w << 6 & 0x0e000e00) | (w << 1 & 0x80008000);
            to[3] = (w << 9 & 0x0e000e00) | (w << 2 & 0x80008000);
        }
        UNROLL for (uint i = 0; i < 8; i++) a[i] = scale_halves(a[i], 0x74007400, no_addend); // times 2^14
    }
    // place returns the bits of a value that is number i of a half.
    static __device__ uint place(uint v, uint i) {
        uint sign = i == 0 ? 15 : i == 1 ? 12 : i == 2 ? 14 : 13;
        return (v >> 3 & 1) << sign | (v & 7) << (9 - 3 * i);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w[2] = {0, 0};
        for (uint i = 0; i < 16; i++) w[i / 8] |= place(v[i], i % 2 * 2 + i / 4 % 2) << (16 * (i / 2 % 2));
        *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
    }
};

// Codes are indices of four bits into a table of 16 bytes, which have 128 added.
struct Codes {
    struct Integers {
        uint2 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint2*)(p + 8 * lane); }
    // found returns the bytes of the table for the four indices in the low half of v.
    static __device__ uint found(uint v) {
        uint low = v & 0x7777, high = 0x3210 | (v >> 1 & 0x4444);
        return __byte_perm(__byte_perm(0x3f2d1801, 0x766a5d4f, low), __byte_perm(0xa6998d81, 0xf1d9c5b5, low), high);
    }
    static __device__ void values(const Integers& r, uint* a) {
        spread_bytes(make_uint4(found(r.q.x), found(r.q.x >> 16), found(r.q.y), found(r.q.y >> 16)), a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w[2] = {0, 0};
        for (uint i = 0; i < 16; i++) w[i / 8] |= uint(v[i] & 15) << (4 * (i % 8));
        *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
    }
};

// spread_twos returns words of 1024+n and 1024+16n for integers of two bits. Each half of a lane's
// word has a value of each of the words, in the order 0, 1, 4, 5, 2, 3, 6 and 7.
__device__ inline void spread_twos(uint q, uint* a) {
    UNROLL for (uint j = 0; j < 4; j++) {
        uint moved = q >> (j % 2 * 2 + j / 2 * 8);
        a[j] = and_or(moved, 0x00030003, half_1024);
        a[j + 4] = and_or(moved, 0x00300030, half_1024);
    }
}

__device__ inline void put_twos(uchar* p, uint lane, const int* v) {
    uint w = 0;
    for (uint i = 0; i < 16; i++) {
        uint j = i % 2 * 2 + i / 4 % 2; // the word of values
        w |= uint(v[i] & 3) << (16 * (i / 2 % 2) + j % 2 * 2 + j / 2 * 8 + i / 8 * 4);
    }
    *(uint*)(p + 4 * lane) = w;
}

// Twos are unsigned integers of two bits.
template <uint offset> struct Twos {
    struct Integers {
        uint q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint*)(p + 4 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        spread_twos(r.q, a);
        subtract<offset, 16>(a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) { put_twos(p, lane, v); }
};

// Threes are integers of three bits from -4 to 3, stored unsigned. The third bits of a lane follow
// the lower two, in the order of Fives.
struct Threes {
    struct Integers {
        uint q;
        ushort high;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) {
        r.q = *(const uint*)(p + 4 * lane);
        r.high = *(const ushort*)(p + 128 + 2 * lane);
    }
    static __device__ void values(const Integers& r, uint* a) {
        spread_twos(r.q, a);
        uint high = __byte_perm(r.high, 0, 0x4140) << 2;
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = high >> j;
            a[j] = and_or(moved, 0x00040004, a[j]);
            a[j + 4] = and_or(moved, 0x00400040, a[j + 4]);
        }
        subtract<4, 16>(a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        put_twos(p, lane, v);
        uint high = 0;
        for (uint i = 0; i < 16; i++) high |= (uint(v[i]) >> 2 & 1) << (8 * (i % 4 / 2) + i / 8 * 4 + i % 2 * 2 + i / 4 % 2);
        *(ushort*)(p + 128 + 2 * lane) = high;
    }
};

// Halves are float16 numbers.
struct Halves {
    struct Integers {
        uint4 low, high;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) {
        r.low = *(const uint4*)(p + 16 * lane);
        r.high = *(const uint4*)(p + 512 + 16 * lane);
    }
    static __device__ void values(const Integers& r, uint* a) {
        a[0] = r.low.x, a[1] = r.low.y, a[2] = r.low.z, a[3] = r.low.w;
        a[4] = r.high.x, a[5] = r.high.y, a[6] = r.high.z, a[7] = r.high.w;
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint a[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (uint i = 0; i < 16; i++) a[i / 8 * 4 + i % 2 * 2 + i / 4 % 2] |= uint(v[i] & 0xffff) << (16 * (i / 2 % 2));
        *(uint4*)(p + 16 * lane) = make_uint4(a[0], a[1], a[2], a[3]);
        *(uint4*)(p + 512 + 16 * lane) = make_uint4(a[4], a[5], a[6], a[7]);
    }
};
