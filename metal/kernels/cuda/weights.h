// The types of weights, packed for tensor cores. Packed weights have the size of those in GGUF,
// except that Q4_K and Q5_K take 4 more bytes per 256 weights, since each scale has its own byte.
//
// Kernels multiply weights as float16: an integer less an offset, times a scale in float16, plus a
// minimum in float16, rounded once. They are 4 times as large as in the file, to make up for the
// activations (activations.h); those of 16 bits are as in the file.
//
// Besides those of integers.h, each type has
//   minimum, halves, scaled  1 if blocks have minimums; if each half of a block has a scale; if
//                          there are scales at all
//   per, header, unit      blocks per super-block, bytes of a super-block's header, bytes of a block
//   parts                  the parts of the activations (activations.h). All numbers and indices of
//                          blocks count each part: block b of the weights is multiplied with blocks
//                          parts*b to parts*b+parts-1 of the activations, so it has these indices too
//   load_scales(p, s, r, k)  reads the scales of rows r and r+8 of the block at p in the super-block at s
//   scales(k, half)        the scales and minimums of the first or second 16 weights
//   quant(row, k)          the integer of weight k of a row in a GGUF file, before the offset
//   put_scales(p, s, row, b, r)  writes the scales of block b of a GGUF row as row r of a group
#include "integers.h"

enum : uint { half_1 = 0x3c00, half_2 = 0x4000, half_8 = 0x4800, half_16 = 0x4c00 }; // as float16

// Scales are the scales d and minimums m of rows r and r+8, in the low and in the high half.
struct Scales {
    uint d, m;
};

__device__ inline uint read2(const uchar* p) { return p[0] | p[1] << 8; }
__device__ inline void write2(uchar* p, uint v) { *(ushort*)p = v; }

__device__ inline uint times(uint a, uint b) { return scale_halves(a, b, no_addend); }

// half_of rounds a number to float16. Larger numbers become the largest one.
__device__ inline uint half_of(float v) { return two_halves(fminf(fmaxf(v, -65504.0f), 65504.0f), 0) & 0xffff; }

// copy_scale writes a float16 number of a GGUF file, multiplied by 4.
__device__ inline void copy_scale(uchar* to, const uchar* from) { write2(to, half_of(4.0f * half_float(read2(from)))); }

// byte_halves returns two bytes of v, less the offset, as float16. which has 0x40 for byte 0 and
// 0x41 for byte 1 of the low half; bytes 2 and 3 follow in the high half.
template <uint offset>
__device__ inline uint byte_halves(uint v, uint which) { return add_halves(__byte_perm(v, 0x64, which), (0xe400u | offset) * 0x10001u); }

// least returns what is added to a scaled integer of which centre was subtracted: the integer times
// the scale d*by, less e*m. The larger products cancel out, so what rounding left of one is added.
__device__ inline uint least(uint d, uint by, uint e, uint m, uint half_of_centre) {
    uint product = times(e, m), rest = less_halves(e, m, product);
    return less_halves(less_halves(times(by, half_of_centre * 0x10001u), d, product), half_1 * 0x10001u, rest);
}

// OneScale is a scale in float16 per row, at the given offset of a block. size is the size of a
// block in GGUF, which begins with the scale.
template <uint at, uint size> struct OneScale {
    enum { minimum = 0, halves = 0, scaled = 1 };
    struct Raw {
        uint d;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.d = *(const uint*)(p + at + 4 * r); }
    static __device__ Scales scales(const Raw& k, uint) { return {k.d, 0}; }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { copy_scale(p + at + r % 8 * 4 + r / 8 * 2, row + b * size); }
};

// put_pair writes the two float16 numbers of row r: first d of rows r and r+8, then m of both.
__device__ inline void put_pair(uchar* to, uint r, const uchar* d, const uchar* m) {
    copy_scale(to + r % 8 * 8 + r / 8 * 2, d);
    copy_scale(to + r % 8 * 8 + r / 8 * 2 + 4, m);
}

// ScaleAndMinimum is OneScale with a minimum after the scale.
template <uint at, uint size> struct ScaleAndMinimum {
    enum { minimum = 1, halves = 0, scaled = 1 };
    struct Raw {
        uint2 dm;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.dm = *(const uint2*)(p + at + 8 * r); }
    static __device__ Scales scales(const Raw& k, uint) { return {k.dm.x, k.dm.y}; }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { put_pair(p + at, r, row + b * size, row + b * size + 2); }
};

// KScales are those of Q4_K and Q5_K. The header of a super-block has d and dmin of each row. A
// block has a 6-bit scale and a 6-bit minimum per row, each in one byte. centre is what integers
// were reduced by, as float16.
template <uint at, uint size, uint centre> struct KScales {
    enum { minimum = 1, halves = 0, scaled = 1 };
    struct Raw {
        uint2 super;
        uint bytes;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + at + 4 * r);
        k.super = *(const uint2*)(s + 8 * r);
    }
    static __device__ Scales scales(const Raw& k, uint) {
        uint by = byte_halves<0>(k.bytes, 0x4240);
        return {times(k.super.x, by), least(k.super.x, by, k.super.y, byte_halves<0>(k.bytes, 0x4341), centre)};
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar *source = row + b / 8 * size, *q = source + 4;
        uint j = b % 8;
        uint scale = j < 4 ? q[j] & 63 : (q[j + 4] & 15) | (q[j - 4] >> 6 << 4);
        uint minimum = j < 4 ? q[j + 4] & 63 : (q[j + 4] >> 4) | (q[j] >> 6 << 4);
        write2(p + at + r % 8 * 4 + r / 8 * 2, scale | minimum << 8);
        if (j == 0) put_pair(s, r, source, source + 2);
    }
};

__device__ inline int five(uint q, uint high, uint k) { return (k < 16 ? q & 15 : q >> 4) | (high >> k & 1) << 4; }

struct Q4_0 : Nibbles<8>, OneScale<256, 18> {
    enum { Q4_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 18 + 2 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

struct Q4_1 : Nibbles<0>, ScaleAndMinimum<256, 20> {
    enum { Q4_1_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 20 + 4 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

struct Q5_0 : Fives<16>, OneScale<320, 22> {
    enum { Q5_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 22;
        return five(b[6 + k % 16], read2(b + 2) | read2(b + 4) << 16, k % 32);
    }
};

struct Q5_1 : Fives<0>, ScaleAndMinimum<320, 24> {
    enum { Q5_1_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 32 * 24;
        return five(b[8 + k % 16], read2(b + 4) | read2(b + 6) << 16, k % 32);
    }
};

struct IQ4_NL : Codes, OneScale<256, 18> {
    enum { IQ4_NL_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 18 + 2 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
};

// A block of MXFP4 has a power of two for each row, in one byte: its exponent plus 127.
struct MXFP4 : Floats4 {
    enum { minimum = 0, halves = 0, scaled = 1, MXFP4_SIZES };
    struct Raw {
        uint exponents;
    };
    static __device__ void load_scales(const uchar* p, const uchar*, uint r, Raw& k) { k.exponents = *(const ushort*)(p + 256 + 2 * r); }
    static __device__ float scale(uint e) { return __uint_as_float(min(e + 2, 140u) << 23); } // so that 6 times as much is a float16
    static __device__ Scales scales(const Raw& k, uint) { return {two_halves(scale(k.exponents & 255), scale(k.exponents >> 8)), 0}; }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 32 * 17 + 1 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
    static __device__ void put_scales(uchar* p, uchar*, const uchar* row, uint b, uint r) { p[256 + r % 8 * 2 + r / 8] = row[b * 17]; }
};

struct Q8_0 : Bytes, OneScale<512, 34> {
    enum { Q8_0_SIZES };
    static __device__ int quant(const uchar* row, uint k) { return row[k / 32 * 34 + 2 + k % 32] ^ 128; }
};

struct Q4_K : Nibbles<8>, KScales<256, 144, half_8> {
    enum { Q4_K_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 256 * 144 + 16 + k % 256 / 64 * 32 + k % 32];
        return k % 64 < 32 ? q & 15 : q >> 4;
    }
};

struct Q5_K : Fives<16>, KScales<320, 176, half_16> {
    enum { Q5_K_SIZES };
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 176;
        uint j = k % 256 / 32, q = b[48 + j / 2 * 32 + k % 32];
        return (j % 2 == 0 ? q & 15 : q >> 4) | (b[16 + k % 32] >> j & 1) << 4;
    }
};

// IQ4_XS has a scale in float16 per 256 weights, in the header, and a signed byte that multiplies
// it per block, stored with 128 added.
struct IQ4_XS : Codes {
    enum { minimum = 0, halves = 0, scaled = 1, IQ4_XS_SIZES };
    struct Raw {
        uint bytes, d;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const ushort*)(p + 256 + 2 * r);
        k.d = *(const uint*)(s + 4 * r);
    }
    static __device__ Scales scales(const Raw& k, uint) { return {times(k.d, byte_halves<128>(k.bytes, 0x4140)), 0}; }
    static __device__ int quant(const uchar* row, uint k) {
        uint q = row[k / 256 * 136 + 8 + k % 256 / 32 * 16 + k % 16];
        return k % 32 < 16 ? q & 15 : q >> 4;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 136;
        uint j = b % 8;
        p[256 + r % 8 * 2 + r / 8] = ((source[4 + j / 2] >> (j % 2 * 4) & 15) | (source[2 + j / 4] >> (j % 4 * 2) & 3) << 4) - 32 + 128;
        if (j == 0) copy_scale(s + r % 8 * 4 + r / 8 * 2, source);
    }
};

// A block of Q2_K has a scale and a minimum of four bits for each 16 weights. The header of a
// super-block is that of Q4_K.
struct Q2_K : Twos<2> {
    enum { minimum = 1, halves = 1, scaled = 1, Q2_K_SIZES };
    struct Raw {
        uint2 super;
        uint bytes; // of both halves of row r, then of row r+8
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + 128 + 4 * r);
        k.super = *(const uint2*)(s + 8 * r);
    }
    static __device__ Scales scales(const Raw& k, uint half) {
        uint which = half == 0 ? 0x4240 : 0x4341, by = byte_halves<0>(k.bytes & 0x0f0f0f0f, which);
        return {times(k.super.x, by), least(k.super.x, by, k.super.y, byte_halves<0>(k.bytes >> 4 & 0x0f0f0f0f, which), half_2)};
    }
    static __device__ int quant(const uchar* row, uint k) {
        return row[k / 256 * 84 + 16 + k % 256 / 128 * 32 + k % 32] >> (k % 128 / 32 * 2) & 3;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 84;
        p[128 + r % 8 * 4 + r / 8 * 2] = source[2 * (b % 8)];
        p[128 + r % 8 * 4 + r / 8 * 2 + 1] = source[2 * (b % 8) + 1];
        if (b % 8 == 0) put_pair(s, r, source + 80, source + 82);
    }
};

// SignedHalfScales are a signed byte for each 16 weights, at the given offset of a block, that
// multiplies the row's scale in the header. It is stored with 128 added.
template <uint at> struct SignedHalfScales {
    enum { minimum = 0, halves = 1, scaled = 1 };
    struct Raw {
        uint bytes, d;
    };
    static __device__ void load_scales(const uchar* p, const uchar* s, uint r, Raw& k) {
        k.bytes = *(const uint*)(p + at + 4 * r);
        k.d = *(const uint*)(s + 4 * r);
    }
    static __device__ Scales scales(const Raw& k, uint half) { return {times(k.d, byte_halves<128>(k.bytes, half == 0 ? 0x4240 : 0x4341)), 0}; }
    static __device__ void put(uchar* p, uchar* s, uint b, uint r, int first, int second, const uchar* d) {
        p[at + r % 8 * 4 + r / 8 * 2] = first + 128;
        p[at + r % 8 * 4 + r / 8 * 2 + 1] = second + 128;
        if (b % 8 == 0) copy_scale(s + r % 8 * 4 + r / 8 * 2, d);
    }
};

struct Q3_K : Threes, SignedHalfScales<192> {
    enum { Q3_K_SIZES };
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

// A block of Q6_K has a scale for each 16 weights.
struct Q6_K : Sixes, SignedHalfScales<384> {
    enum { Q6_K_SIZES };
    using Sixes::put;
    static __device__ int quant(const uchar* row, uint k) {
        const uchar* b = row + k / 256 * 210;
        uint h = k % 256 / 128, l = k % 32, quarter = k % 128 / 32;
        uint low = b[64 * h + l + 32 * (quarter & 1)] >> (quarter / 2 * 4) & 15, high = b[128 + 32 * h + l] >> (2 * quarter) & 3;
        return low | high << 4;
    }
    static __device__ void put_scales(uchar* p, uchar* s, const uchar* row, uint b, uint r) {
        const uchar* source = row + b / 8 * 210;
        const signed char* scales = (const signed char*)source + 192 + 2 * (b % 8);
        SignedHalfScales::put(p, s, b, r, scales[0], scales[1], source + 208);
    }
};

// Sixteen is a base of types of 16 bits, which have no scales.
struct Sixteen : Halves {
    enum { minimum = 0, halves = 0, scaled = 0 };
    struct Raw {};
    static __device__ void load_scales(const uchar*, const uchar*, uint, Raw&) {}
    static __device__ void put_scales(uchar*, uchar*, const uchar*, uint, uint) {}
};

struct F16 : Sixteen {
    enum { F16_SIZES };
    static __device__ int quant(const uchar* row, uint k) { return read2(row + 2 * k); }
};

// BF16 weights become float16. Those from 2^-17 to 65,504 are exact.
struct BF16 : Sixteen {
    enum { BF16_SIZES };
    static __device__ int quant(const uchar* row, uint k) { return half_of(__uint_as_float(read2(row + 2 * k) << 16)); }
};

// group_bytes returns the size of a group whose rows have the given number of blocks.
template <class W>
__device__ inline ulong group_bytes(uint blocks) { return ulong(blocks / (W::parts * W::per)) * (W::header + W::per * W::unit); }

// super_block and block return the addresses of the super-block of block b and of block b itself.
template <class W>
__device__ inline const uchar* super_block(const uchar* group, uint b) { return group + b / (W::parts * W::per) * (W::header + W::per * W::unit); }
template <class W>
__device__ inline const uchar* block(const uchar* super, uint b) { return super + W::header + b / W::parts % W::per * W::unit; }

// Place is where a block and its super-block are in a group, as offsets in bytes.
template <class W>
struct Place {
    uint super, block, index; // index is that of the block in its super-block

    __device__ Place() {}
    __device__ Place(uint b) : super(b / (W::parts * W::per) * (W::header + W::per * W::unit)), index(b % (W::parts * W::per)) {
        block = super + W::header + index / W::parts * W::unit;
    }

    // advance goes to the next block.
    __device__ void advance() {
        if (W::parts == 1 || index % W::parts == W::parts - 1) block += W::unit;
        if (W::parts * W::per > 1 && ++index == W::parts * W::per) index = 0, super = block, block += W::header;
        if (W::parts * W::per == 1) super = block;
    }
};

// Packed weights of a block, as a lane reads them.
template <class W>
struct Lane {
    typename W::Integers q;
    typename W::Raw k;

    // load reads block b of a group.
    __device__ void load(const uchar* group, uint b, uint lane) {
        const uchar* super = super_block<W>(group, b);
        load(super, block<W>(super, b), lane);
    }

    // load reads a block of a super-block.
    __device__ void load(const uchar* super, const uchar* block, uint lane) {
        W::load(block, lane, q);
        W::load_scales(block, super, lane / 4, k);
    }

    // values returns the weights as float16, in the order of add_dots.
    __device__ void values(uint* a) const {
        W::values(q, a);
        if constexpr (W::scaled != 0) {
            Scales s = W::scales(k, 0);
            scale(a, s);
            if constexpr (W::halves != 0) s = W::scales(k, 1);
            scale(a + 4, s);
        }
    }

    // scale multiplies the integers of 16 columns by scales, and adds minimums.
    static __device__ void scale(uint* a, Scales s) {
        UNROLL for (uint row = 0; row < 2; row++) {
            uint d = row == 0 ? both_low(s.d) : both_high(s.d);
            uint m = !W::minimum ? no_addend : row == 0 ? both_low(s.m) : both_high(s.m);
            a[row] = scale_halves(a[row], d, m);
            a[row + 2] = scale_halves(a[row + 2], d, m);
        }
    }

    // read_scales returns the scales of a block of one scale per row.
    static __device__ Scales read_scales(const uchar* super, const uchar* block, uint lane) {
        typename W::Raw k;
        W::load_scales(block, super, lane / 4, k);
        return W::scales(k, 0);
    }
};
