// The types of weights, packed for tensor cores. 16 rows form a group. A block of 32 columns of a
// group is contiguous: lane 4r+q of a warp finds values 4q to 4q+3 and 4q+16 to 4q+19 of rows r and
// r+8 side by side, and the scales follow. The size is the same as in GGUF, except that Q4_K and
// Q5_K take 4 more bytes per 256 weights, since each scale has its own byte.
//
// Integers become float16 by their bits alone: an integer below 1024 in the low bits of a float16
// is that integer times 2^-24. The integers of columns 16 to 31 are 4 bits higher, so they are
// times 2^-20. The activations of columns 0 to 15 are times 16 in turn (activations.h).
//
// Each type has
//   minimum, halves        1 if blocks have minimums; 1 if each half of a block has a scale
//   offset                 what is subtracted from the integers after values
//   per, header, unit      blocks per super-block, bytes of a super-block's header, bytes of a block
//   parts                  the parts of the activations (activations.h). All numbers and indices of
//                          blocks count each part: block b of the weights is multiplied with blocks
//                          parts*b to parts*b+parts-1 of the activations, so it has these indices too
//   load(p, lane, q)       reads a lane's integers of the block at p
//   values(q, a)           the integers as float16, in the order of two calls of dots16: columns 0
//                          to 15 in a[0] to a[3], columns 16 to 31 in a[4] to a[7]
//   load_scales(p, s, r, k)  reads the scales of rows r and r+8 of the block at p in the super-block at s
//   scales(k)              the scales and minimums
//   half_scale(k, row, half), half_minimum  with halves: what multiplies the scale, or the minimum, of
//                          the first or second 16 weights of row r (0) or r+8 (1)
//   quant(row, k)          the integer of weight k of a row in a GGUF file, before the offset
//   put(p, lane, v)        writes a lane's 16 integers as load reads them
//   put_scales(p, s, row, b, r)  writes the scales of block b of a GGUF row as row r of a group
#include "base.h"

// Scales are the scales d and minimums m of rows r (d0, m0) and r+8 (d1, m1): a weight is d times
// its integer plus m.
struct Scales {
    float d0, d1, m0, m1;
};

__device__ inline uint low_half(uint v) { return v & 0xffff; }

__device__ inline uint read2(const uchar* p) { return p[0] | p[1] << 8; }
__device__ inline void write2(uchar* p, uint v) { *(ushort*)p = v; }

// Nibbles are unsigned integers of four bits, or the low bits of larger ones. Byte i of the first
// word has values 4q+i and 4q+16+i of row r, and the second word has those of row r+8.
struct Nibbles {
    struct Integers {
        uint2 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint2*)(p + 8 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        UNROLL for (uint row = 0; row < 2; row++) {
            uint v = row == 0 ? r.q.x : r.q.y;
            a[row] = v & 0x000f000f;
            a[row + 4] = v & 0x00f000f0;
            v >>= 8;
            a[row + 2] = v & 0x000f000f;
            a[row + 6] = v & 0x00f000f0;
        }
    }
    // A lane's integers are v[0] to v[3] of row r and v[4] to v[7] of row r+8 in columns 0 to 15,
    // then those in columns 16 to 31.
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w[2] = {0, 0};
        for (uint i = 0; i < 8; i++) w[i / 4] |= uint(v[i] & 15) << (8 * (i % 4)) | uint(v[i + 8] & 15) << (8 * (i % 4) + 4);
        *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
    }
};

// Fives are unsigned integers of five bits. The fifth bits of a lane follow the nibbles.
struct Fives {
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
        Nibbles::values({r.q}, a);
        uint high = __byte_perm(r.high, 0, 0x4140);
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = high << (4 - j);
            a[j] |= moved & 0x00100010;
            a[j + 4] |= moved & 0x01000100;
        }
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        Nibbles::put(p, lane, v);
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
        Nibbles::values({r.q}, a);
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = j == 0 ? r.high << 4 : j == 1 ? r.high << 2 : j == 2 ? r.high >> 4 : r.high >> 6;
            a[j] = add_halves(a[j] | (moved & 0x00300030), 0x80208020);
            a[j + 4] = add_halves(a[j + 4] | (moved & 0x03000300), 0x82008200);
        }
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        Nibbles::put(p, lane, v);
        uint high = 0;
        for (uint i = 0; i < 16; i++) high |= (uint(v[i]) >> 4 & 3) << (16 * (i % 4 / 2) + i % 2 * 8 + i / 8 * 4 + i / 4 % 2 * 2);
        *(uint*)(p + 256 + 4 * lane) = high;
    }
};

// Bytes are integers from -128 to 127, stored with 128 added.
struct Bytes {
    struct Integers {
        uint4 q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint4*)(p + 16 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        uint words[4] = {r.q.x, r.q.y, r.q.z, r.q.w};
        UNROLL for (uint i = 0; i < 4; i++) {
            uint even = words[i] & 0x00ff00ff, odd = words[i] >> 8 & 0x00ff00ff, *to = a + i / 2 * 4 + i % 2;
            to[0] = i < 2 ? add_halves(even, 0x80808080) : scale_halves(even, 0x4c004c00, 0x88008800); // 0x4c00 is 16
            to[2] = i < 2 ? add_halves(odd, 0x80808080) : scale_halves(odd, 0x4c004c00, 0x88008800);
        }
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        for (uint j = 0; j < 4; j++) {
            uint w = 0;
            for (uint i = 0; i < 4; i++) w |= uint(v[4 * j + i] & 255) << (8 * i);
            ((uint*)(p + 16 * lane))[j] = w;
        }
    }
};

// Floats4 are floats of four bits, as in MXFP4: a sign, two bits of exponent and one of mantissa.
// As float16, they are twice their value times 2^-15 in columns 0 to 15 and times 2^-11 in columns
// 16 to 31. A word has the bits of eight values: in each half, those of four values of the words of
// columns 0 to 15, or of columns 16 to 31. Each value's exponent and mantissa are contiguous.
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
        UNROLL for (uint i = 4; i < 8; i++) a[i] = scale_halves(a[i], 0x4c004c00, 0x80008000); // times 16
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
        Bytes::values({make_uint4(found(r.q.x), found(r.q.x >> 16), found(r.q.y), found(r.q.y >> 16))}, a);
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w[2] = {0, 0};
        for (uint i = 0; i < 16; i++) w[i / 8] |= uint(v[i] & 15) << (4 * (i % 8));
        *(uint2*)(p + 8 * lane) = make_uint2(w[0], w[1]);
    }
};

// Twos are unsigned integers of two bits. Each half of a lane's word has a value of each of the
// words of values, in the order 0, 1, 4, 5, 2, 3, 6 and 7.
struct Twos {
    struct Integers {
        uint q;
    };
    static __device__ void load(const uchar* p, uint lane, Integers& r) { r.q = *(const uint*)(p + 4 * lane); }
    static __device__ void values(const Integers& r, uint* a) {
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = r.q >> (j % 2 * 2 + j / 2 * 8);
            a[j] = moved & 0x00030003;
            a[j + 4] = moved & 0x00300030;
        }
    }
    // at returns where the bits of value i are.
    static __device__ uint at(uint i) {
        uint j = i % 2 * 2 + i / 4 % 2; // the word of values
        return 16 * (i / 2 % 2) + j % 2 * 2 + j / 2 * 8 + i / 8 * 4;
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        uint w = 0;
        for (uint i = 0; i < 16; i++) w |= uint(v[i] & 3) << at(i);
        *(uint*)(p + 4 * lane) = w;
    }
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
        Twos::values({r.q}, a);
        uint high = __byte_perm(r.high, 0, 0x4140) << 2;
        UNROLL for (uint j = 0; j < 4; j++) {
            uint moved = high >> j;
            a[j] = add_halves(a[j] | (moved & 0x00040004), 0x80048004);
            a[j + 4] = add_halves(a[j + 4] | (moved & 0x00400040), 0x80408040);
        }
    }
    static __device__ void put(uchar* p, uint lane, const int* v) {
        Twos::put(p, lane, v);
        uint high = 0;
        for (uint i = 0; i < 16; i++) high |= (uint(v[i]) >> 2 & 1) << (8 * (i % 4 / 2) + i / 8 * 4 + i % 2 * 2 + i / 4 % 2);
        *(ushort*)(p + 128 + 2 * lane) = high;
    }
};

// Halves are float16 numbers. They are the same in all columns, so those of columns 0 to 15 have a
// scale of a sixteenth to make up for that of the activations.
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

// OneScale is a scale in float16 per row, at the given offset of a block. size is the size of a
// block in GGUF, which begins with the scale.
template <uint at, uint size> struct OneScale {
    enum { minimum = 0, halves = 0 };
    struct Raw {
        uint d;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.d = *(const uint*)(p + at + 4 * r); }
    static __device__ Scales scales(const Raw& k) { return {half_float(low_half(k.d)), half_float(k.d >> 16), 0, 0}; }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { write2(p + at + r % 8 * 4 + r / 8 * 2, read2(row + b * size)); }
};

// ScaleAndMinimum is OneScale with a minimum after the scale.
template <uint at, uint size> struct ScaleAndMinimum {
    enum { minimum = 1, halves = 0 };
    struct Raw {
        uint2 dm;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.dm = *(const uint2*)(p + at + 8 * r); }
    static __device__ Scales scales(const Raw& k) {
        return {half_float(low_half(k.dm.x)), half_float(low_half(k.dm.y)), half_float(k.dm.x >> 16), half_float(k.dm.y >> 16)};
    }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) {
        write2(p + at + r % 8 * 8 + r / 8 * 4, read2(row + b * size));
        write2(p + at + r % 8 * 8 + r / 8 * 4 + 2, read2(row + b * size + 2));
    }
};

// KScales are those of Q4_K and Q5_K. The header of a super-block has d and dmin of each row as
// float16. The values of rows r and r+8 are side by side. A block has a 6-bit scale and a 6-bit
// minimum per row, each in one byte.
template <uint at, uint size> struct KScales {
    enum { minimum = 1, halves = 0 };
    struct Raw {
        uint2 super;
        uint bytes;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + at + 4 * r);
        k.super = *(const uint2*)(s + 8 * r);
    }
    static __device__ Scales scales(const Raw& k) {
        float d0 = half_float(low_half(k.super.x)), e0 = -half_float(k.super.x >> 16);
        float d1 = half_float(low_half(k.super.y)), e1 = -half_float(k.super.y >> 16);
        return {
            d0 * float(k.bytes & 255), d1 * float(k.bytes >> 16 & 255),
            e0 * float(k.bytes >> 8 & 255), e1 * float(k.bytes >> 24),
        };
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar *source = row + b / 8 * size, *q = source + 4;
        uint j = b % 8;
        uint scale = j < 4 ? q[j] & 63 : (q[j + 4] & 15) | (q[j - 4] >> 6 << 4);
        uint minimum = j < 4 ? q[j + 4] & 63 : (q[j + 4] >> 4) | (q[j] >> 6 << 4);
        write2(p + at + r % 8 * 4 + r / 8 * 2, scale | minimum << 8);
        if (j > 0) return;
        write2(s + r % 8 * 8 + r / 8 * 4, read2(source));
        write2(s + r % 8 * 8 + r / 8 * 4 + 2, read2(source + 2));
    }
};

__device__ inline int five(uint q, uint high, uint k) { return (k < 16 ? q & 15 : q >> 4) | (high >> k & 1) << 4; }

struct Q4_0 : Nibbles, OneScale<256, 18> {
    enum { offset = 8, Q4_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 18 + 2 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

struct Q4_1 : Nibbles, ScaleAndMinimum<256, 20> {
    enum { offset = 0, Q4_1_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 20 + 4 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

struct Q5_0 : Fives, OneScale<320, 22> {
    enum { offset = 16, Q5_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 22;
        return five(b[6 + k % 16], read2(b + 2) | read2(b + 4) << 16, k % 32);
    }
};

struct Q5_1 : Fives, ScaleAndMinimum<320, 24> {
    enum { offset = 0, Q5_1_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 24;
        return five(b[8 + k % 16], read2(b + 4) | read2(b + 6) << 16, k % 32);
    }
};

struct IQ4_NL : Codes, OneScale<256, 18> {
    enum { offset = 0, IQ4_NL_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 18 + 2 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

// power returns 2^(e-127), for e from 0 to 254.
__device__ inline float power(uint e) { return __uint_as_float(e == 0 ? 0x00400000 : e << 23); }

// A block of MXFP4 has a power of two for each row, in one byte: its exponent plus 127.
struct MXFP4 : Floats4 {
    enum { minimum = 0, halves = 0, offset = 0, MXFP4_SIZES };
    struct Raw {
        uint exponents;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.exponents = *(const ushort*)(p + 256 + 2 * r); }
    static __device__ float scale(uint e) { return power(e) * 0.0009765625f; } // 2^-10: 2^-9 for Floats4, and half of twice the values
    static __device__ Scales scales(const Raw& k) { return {scale(k.exponents & 255), scale(k.exponents >> 8), 0, 0}; }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 17 + 1 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { p[256 + r % 8 * 2 + r / 8] = row[b * 17]; }
};

struct Q8_0 : Bytes, OneScale<512, 34> {
    enum { offset = 0, Q8_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) { return row[k / 32 * 34 + 2 + k % 32] ^ 128; }
};

struct Q4_K : Nibbles, KScales<256, 144> {
    enum { offset = 0, Q4_K_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 256 * 144 + 16 + k % 256 / 64 * 32 + k % 32];
        return k % 64 < 32 ? q & 15 : q >> 4;
    }
};

struct Q5_K : Fives, KScales<320, 176> {
    enum { offset = 0, Q5_K_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 176;
        uint j = k % 256 / 32, q = b[48 + j / 2 * 32 + k % 32];
        return (j % 2 == 0 ? q & 15 : q >> 4) | (b[16 + k % 32] >> j & 1) << 4;
    }
};

// IQ4_XS has a scale in float16 per 256 weights, in the header, and a signed byte that multiplies
// it per block.
struct IQ4_XS : Codes {
    enum { minimum = 0, halves = 0, offset = 0, IQ4_XS_SIZES };
    struct Raw {
        uint bytes, d;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const ushort*)(p + 256 + 2 * r);
        k.d = *(const uint*)(s + 4 * r);
    }
    static __device__ Scales scales(const Raw& k) {
        return {half_float(low_half(k.d)) * float(int(k.bytes << 24) >> 24), half_float(k.d >> 16) * float(int(k.bytes << 16) >> 24), 0, 0};
    }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 256 * 136 + 8 + k % 256 / 32 * 16 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 136;
        uint j = b % 8;
        p[256 + r % 8 * 2 + r / 8] = ((source[4 + j / 2] >> (j % 2 * 4) & 15) | (source[2 + j / 4] >> (j % 4 * 2) & 3) << 4) - 32;
        if (j == 0) write2(s + r % 8 * 4 + r / 8 * 2, read2(source));
    }
};

// A block of Q2_K has a scale and a minimum of four bits for each 16 weights. The header of a
// super-block is that of Q4_K.
struct Q2_K : Twos {
    enum { minimum = 1, halves = 1, offset = 0, Q2_K_SIZES };
    struct Raw {
        uint2 super;
        uint bytes; // of both halves of row r, then of row r+8
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + 128 + 4 * r);
        k.super = *(const uint2*)(s + 8 * r);
    }
    static __device__ Scales scales(const Raw& k) {
        return {half_float(low_half(k.super.x)), half_float(low_half(k.super.y)), -half_float(k.super.x >> 16), -half_float(k.super.y >> 16)};
    }
    static __device__ float half_scale(const Raw& k, uint row, uint half) { return float(k.bytes >> (16 * row + 8 * half) & 15); }
    static __device__ float half_minimum(const Raw& k, uint row, uint half) { return float(k.bytes >> (16 * row + 8 * half + 4) & 15); }
    static __device__ int quant(const uchar* row, uint k) {
        return row[k / 256 * 84 + 16 + k % 256 / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 84;
        p[128 + r % 8 * 4 + r / 8 * 2] = source[2 * (b % 8)];
        p[128 + r % 8 * 4 + r / 8 * 2 + 1] = source[2 * (b % 8) + 1];
        if (b % 8 > 0) return;
        write2(s + r % 8 * 8 + r / 8 * 4, read2(source + 80));
        write2(s + r % 8 * 8 + r / 8 * 4 + 2, read2(source + 82));
    }
};

// SignedHalfScales are a signed byte for each 16 weights, at the given offset of a block, that
// multiplies the row's scale in the header.
template <uint at> struct SignedHalfScales {
    enum { minimum = 0, halves = 1 };
    struct Raw {
        uint bytes, d;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + at + 4 * r);
        k.d = *(const uint*)(s + 4 * r);
    }
    static __device__ Scales scales(const Raw& k) { return {half_float(low_half(k.d)), half_float(k.d >> 16), 0, 0}; }
    static __device__ float half_scale(const Raw& k, uint row, uint half) { return float(int(k.bytes << (24 - 16 * row - 8 * half)) >> 24); }
    static __device__ void put(uchar* p, uchar* s, uint b, uint r, int first, int second, const uchar* d) {
        p[at + r % 8 * 4 + r / 8 * 2] = first;
        p[at + r % 8 * 4 + r / 8 * 2 + 1] = second;
        if (b % 8 == 0) write2(s + r % 8 * 4 + r / 8 * 2, read2(d));
    }
};

struct Q3_K : Threes, SignedHalfScales<192> {
    enum { offset = 0, Q3_K_SIZES };
    using Threes::put;
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 110;
        uint low = b[32 + k % 256 / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3;
        return low | (b[k % 32] >> (k % 256 / 32) & 1) << 2;
    }
    static __device__ int six(const uchar* q, uint j) { return int((q[j % 8] >> (j / 8 * 4) & 15) | (q[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32; }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 110;
        SignedHalfScales::put(p, s, b, r, six(source + 96, 2 * (b % 8)), six(source + 96, 2 * (b % 8) + 1), source + 108);
    }
};

// Sixteen is a base of types of 16 bits. Each block of a row has a power of two, as in MXFP4, that
// multiplies float16 numbers.
struct Sixteen : Halves {
    enum { minimum = 0, halves = 1, offset = 0 };
    struct Raw {
        uint exponents;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.exponents = *(const ushort*)(p + 1024 + 2 * r); }
    static __device__ float scale(uint e) { return power(e) * 0.00000095367431640625f; } // 2^-20
    static __device__ Scales scales(const Raw& k) { return {scale(k.exponents & 255), scale(k.exponents >> 8), 0, 0}; }
    static __device__ float half_scale(const Raw&, uint, uint half) { return half == 0 ? 0.0625f : 1.0f; }
};

struct F16 : Sixteen {
    enum { F16_SIZES };
    static __device__ int quant(const uchar* row, uint k) { return read2(row + 2 * k); }
    static __device__ void put_scales(uchar* p, uchar*, const uchar*, uint, uint r) { p[1024 + r % 8 * 2 + r / 8] = 127; }
};

// BF16 weights become float16 after a division by a power of two, such that the largest of a block
// is from 2^14 to 2^15. Then weights down to 2^-28 of the largest are exact.
struct BF16 : Sixteen {
    enum { BF16_SIZES };
    // exponent returns the exponent of the power of two of block b, plus 127.
    static __device__ uint exponent(const uchar* row, uint b) {
        uint most = 0;
        for (uint k = 32 * b; k < 32 * b + 32; k++) most = max(most, read2(row + 2 * k) >> 7 & 255);
        return most > 14 ? most - 14 : 0;
    }
    static __device__ int quant(const uchar* row, uint k) {
        float v = __uint_as_float(read2(row + 2 * k) << 16);
        uint e = exponent(row, k / 32); // v is at most 2^(e-113), so neither factor is too large
        return two_halves(v * power(127 + 63 - e / 2) * power(64 - (e - e / 2) + 127), 0) & 0xffff;
    }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { p[1024 + r % 8 * 2 + r / 8] = exponent(row, b); }
};

// A block of Q6_K has a scale for each 16 weights.
struct Q6_K : Sixes, SignedHalfScales<384> {
    enum { offset = 0, Q6_K_SIZES };
    using Sixes::put;
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 210;
        uint h = k % 256 / 128, l = k % 32, quarter = k % 128 / 32;
        uint low = b[64 * h + l + 32 * (quarter & 1)] >> (quarter / 2 * 4) & 15, high = b[128 + 32 * h + l] >> (2 * quarter) & 3;
        return low | high << 4;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 210;
        SignedHalfScales::put(p, s, b, r, source[192 + 2 * (b % 8)], source[192 + 2 * (b % 8) + 1], source + 208);
    }
};

// group_bytes returns the size of a group whose rows have the given number of blocks.
template <class W>
__device__ inline ulong group_bytes(uint blocks) { return ulong(blocks / (W::parts * W::per)) * (W::header + W::per * W::unit); }

// super_block and block return the addresses of the super-block of block b and of block b itself.
template <class W>
__device__ inline const uchar* super_block(const uchar* group, uint b) { return group + b / (W::parts * W::per) * (W::header + W::per * W::unit); }
template <class W>
__device__ inline const uchar* block(const uchar* super, uint b) { return super + W::header + b / W::parts % W::per * W::unit; }

// half_scale returns W::half_scale, or 1 for types whose blocks have one scale. half_minimum is
// W::half_minimum likewise.
template <class W>
__device__ inline float half_scale(const typename W::Raw& k, uint row, uint half) {
    if constexpr (W::halves != 0) return W::half_scale(k, row, half);
    else return 1;
}
template <class W>
__device__ inline float half_minimum(const typename W::Raw& k, uint row, uint half) {
    if constexpr (W::halves != 0 && W::minimum != 0) return W::half_minimum(k, row, half);
    else return 1;
}

// subtract_offset subtracts the offset from integers that values returned.
template <class W>
__device__ inline void subtract_offset(uint* a) {
    if constexpr (W::offset != 0) {
        UNROLL for (uint i = 0; i < 8; i++) a[i] = add_halves(a[i], (0x8000u | W::offset << (i < 4 ? 0 : 4)) * 0x10001u);
    }
}
