// The types of weights in GGUF files. A row of weights is read in chunks of 16. Chunk c belongs to
// strand c%8. Every kernel sums the weights of a strand in the same order, and then adds the eight
// strands in order, so that a product has the same bits in all kernels.
//
// Each type has these members:
//   Packed               what fetch reads of a chunk
//   fetch(row, c, n)     reads chunk c of a row of n weights
//   unpack(packed, c, w) writes the chunk's 16 weights to w, in the order of the sum
//   at(c, i)             position in the row at which weights 4i to 4i+3 of chunk c begin
// Kernels fetch chunks before they unpack those that they have fetched before, so that they do not
// wait for memory. So fetch computes nothing with what it reads: a conversion would wait for it.
// If a chunk extends past the end of a row, its weights past the end are zeros. This occurs only in
// types without blocks.
#include "bits.h"

constant uint strands = ALL_STRANDS;

// ALIGNED_FLOATS is whether rows of floats are known to be aligned to 16 bytes.
#if !defined(ALIGNED_FLOATS)
#define ALIGNED_FLOATS false
#endif

inline void put(float4 v, thread float* w) {
    w[0] = v.x;
    w[1] = v.y;
    w[2] = v.z;
    w[3] = v.w;
}

// load_weights writes the 16 weights of chunk c of a row of n weights to w.
template <typename W>
inline void load_weights(device const uchar* row, uint c, uint n, thread float* w) {
    typename W::Packed packed = W::fetch(row, c, n);
    W::unpack(packed, c, w);
}

// Unfetched is a base of types whose chunks are read when they are unpacked.
template <typename W>
struct Unfetched {
    struct Packed {
        device const uchar* row;
        uint n;
    };
    static inline Packed fetch(device const uchar* row, uint, uint n) { return Packed{row, n}; }
    static inline void unpack(thread const Packed& p, uint c, thread float* w) { W::read(p.row, c, p.n, w); }
};

struct Sixteen {
    float w[16];
};

// Plain is a base of types without blocks, whose member read returns weights as they are stored.
template <typename W>
struct Plain {
    enum { block = 1 };
    typedef Sixteen Packed;
    static inline Packed fetch(device const uchar* row, uint c, uint n) {
        Packed p;
        W::read(row, c, n, p.w);
        return p;
    }
    static inline void unpack(thread const Packed& p, uint, thread float* w) {
        UNROLL for (uint i = 0; i < 16; i++) w[i] = p.w[i];
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

struct F32 : Plain<F32> {
    enum { bytes = 4 };
    static inline void read(device const uchar* row, uint c, uint n, thread float* w) {
        device const float* p = (device const float*)row + 16 * c;
        if (ALIGNED_FLOATS) {
            UNROLL for (uint i = 0; i < 16; i += 4) put(16 * c + i < n ? float4(*(device const float4*)(p + i)) : float4(0.0f), w + i);
        } else if (16 * c + 16 <= n) {
            UNROLL for (uint i = 0; i < 16; i += 4) put(float4(*(device const packed_float4*)(p + i)), w + i);
        } else {
            UNROLL for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? p[i] : 0.0f;
        }
    }
};

struct F16 : Plain<F16> {
    enum { bytes = 2 };
    static inline void read(device const uchar* row, uint c, uint n, thread float* w) {
        device const half* p = (device const half*)row + 16 * c;
        if (16 * c + 16 <= n) {
            UNROLL for (uint i = 0; i < 16; i += 4) put(float4(half4(*(device const packed_half4*)(p + i))), w + i);
        } else {
            UNROLL for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? float(p[i]) : 0.0f;
        }
    }
};

struct BF16 : Plain<BF16> {
    enum { bytes = 2 };
    static inline void read(device const uchar* row, uint c, uint n, thread float* w) {
        device const ushort* p = (device const ushort*)row + 16 * c;
        if (16 * c + 16 <= n) {
            UNROLL for (uint i = 0; i < 16; i += 4) {
                ushort4 v = ushort4(*(device const packed_ushort4*)(p + i));
                UNROLL for (uint j = 0; j < 4; j++) w[i + j] = as_type<float>(uint(v[j]) << 16);
            }
        } else {
            UNROLL for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? as_type<float>(uint(p[i]) << 16) : 0.0f;
        }
    }
};

// In blocks of 32 with two weights per byte, a chunk is 8 bytes: first the weights in their low
// halves, then those in their high halves.
inline uint nibbles_at(uint c, uint i) { return 32 * (c / 2) + 8 * (c & 1) + 4 * (i & 1) + 16 * (i / 2); }

struct Q4_0 {
    enum { block = 32, bytes = 18 };
    struct Packed {
        ushort4 q;
        float d;
    };
    static inline Packed fetch(device const uchar* row, uint c, uint) {
        device const uchar* b = row + ulong(c / 2) * 18;
        return Packed{read_8(b + 2 + 8 * (c & 1)), read_half(b)};
    }
    static inline void unpack(thread const Packed& p, uint, thread float* w) {
        float d = p.d, d4 = d * by_16, d8 = d * by_256, d12 = d * by_4096;
        UNROLL for (uint i = 0; i < 4; i++) {
            w[2 * i] = d * number(p.q[i], 0xf, 0x8);
            w[2 * i + 1] = d8 * number(p.q[i], 0xf00, 0x800);
            w[2 * i + 8] = d4 * number(p.q[i], 0xf0, 0x80);
            w[2 * i + 9] = d12 * number(p.q[i], 0xf000, 0x8000);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// nibbles unpacks 16 four-bit numbers in the order of blocks of 32: d·q+m for the low halves of
// bytes, then e·q+k for the high halves.
inline void nibbles(uint2 q, float d, float m, float e, float k, thread float* w) {
    float d8 = d * by_256, e4 = e * by_16, e12 = e * by_4096;
    UNROLL for (uint i = 0; i < 4; i++) {
        uint four = q[i / 2] >> (16 * (i % 2));
        w[2 * i] = fma(d, number(four, 0xf, 0), m);
        w[2 * i + 1] = fma(d8, number(four, 0xf00, 0), m);
        w[2 * i + 8] = fma(e4, number(four, 0xf0, 0), k);
        w[2 * i + 9] = fma(e12, number(four, 0xf000, 0), k);
    }
}

struct Q4_1 : Unfetched<Q4_1> {
    enum { block = 32, bytes = 20 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 20;
        float d = read_half(b), m = read_half(b + 2);
        nibbles(uint2(read_4(b + 4 + 8 * (c & 1)), read_4(b + 8 + 8 * (c & 1))), d, m, d, m, w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// five returns v - zero for a five-bit number v. The low four bits of v are bits at to at+3 of q.
// Its high bit is bit i of high.
inline float five(uint q, uint at, uint high, uint i, uint zero) { return number(((q >> at) & 15) | (((high >> i) & 1) << 4), 31, zero); }

struct Q5_0 : Unfetched<Q5_0> {
    enum { block = 32, bytes = 22 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 22;
        float d = read_half(b);
        uint high = read_4(b + 2) >> (8 * (c & 1));
        ushort4 q = read_8(b + 6 + 8 * (c & 1));
        UNROLL for (uint i = 0; i < 8; i++) {
            w[i] = d * five(q[i / 2], 8 * (i & 1), high, i, 16);
            w[i + 8] = d * five(q[i / 2], 8 * (i & 1) + 4, high, i + 16, 16);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

struct Q5_1 : Unfetched<Q5_1> {
    enum { block = 32, bytes = 24 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 24;
        float d = read_half(b), m = read_half(b + 2);
        uint high = read_4(b + 4) >> (8 * (c & 1));
        ushort4 q = read_8(b + 8 + 8 * (c & 1));
        UNROLL for (uint i = 0; i < 8; i++) {
            w[i] = fma(d, five(q[i / 2], 8 * (i & 1), high, i, 0), m);
            w[i + 8] = fma(d, five(q[i / 2], 8 * (i & 1) + 4, high, i + 16, 0), m);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

struct Q8_0 {
    enum { block = 32, bytes = 34 };
    struct Packed {
        ushort4 q[2];
        float d;
    };
    static inline Packed fetch(device const uchar* row, uint c, uint) {
        device const uchar* b = row + ulong(c / 2) * 34;
        return Packed{{read_8(b + 2 + 16 * (c & 1)), read_8(b + 10 + 16 * (c & 1))}, read_half(b)};
    }
    static inline void unpack(thread const Packed& p, uint, thread float* w) {
        float d = p.d, d8 = d * by_256;
        UNROLL for (uint i = 0; i < 8; i++) {
            uint v = p.q[i / 4][i % 4] ^ 0x8080;  // signed bytes, plus 128
            w[2 * i] = d * number(v, 0xff, 0x80);
            w[2 * i + 1] = d8 * number(v, 0xff00, 0x8000);
        }
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// KHead are the first 16 bytes of a Q4_K or Q5_K block, which are aligned to 16 bytes: the scales
// of the block's scales and minima, and 12 bytes with the 6-bit scales and minima of eight
// sub-blocks. Those of the first four are the low bits of bytes 0 to 7; the others are in bytes 8
// to 11 and in the high bits of bytes 0 to 7.
struct KHead {
    uint4 bits;
    // scales returns scale and minimum of sub-block 2j (x, y) and of sub-block 2j+1 (z, w).
    float4 scales(uint j) const {
        float d = float(as_type<half>(ushort(bits.x & 0xffff))), m = -float(as_type<half>(ushort(bits.x >> 16)));
        uint shift = 16 * (j & 1), low = bits.y >> shift, next = bits.z >> shift, high = bits.w >> shift;
        uint scales = j < 2 ? low & 0x3f3f : (high & 0x0f0f) | ((low >> 2) & 0x3030);
        uint minima = j < 2 ? next & 0x3f3f : ((high >> 4) & 0x0f0f) | ((next >> 2) & 0x3030);
        return float4(d * number(scales, 0x3f, 0), m * number(minima, 0x3f, 0), d * (number(scales, 0x3f00, 0) * by_256), m * (number(minima, 0x3f00, 0) * by_256));
    }
};

inline KHead read_head(device const uchar* b) { return KHead{*(device const uint4*)b}; }

// In blocks of 256, 32 bytes hold two sub-blocks of 32 weights: one in the low halves of the bytes,
// one in the high halves. A chunk is 8 of these bytes.
inline uint k_at(uint c, uint i) { return 256 * (c / 16) + 64 * (c % 16 / 4) + 8 * (c & 3) + 4 * (i & 1) + 32 * (i / 2); }

struct Q4_K {
    enum { block = 256, bytes = 144 };
    struct Packed {
        KHead head;
        uint2 q;
    };
    static inline Packed fetch(device const uchar* row, uint c, uint) {
        device const uchar* b = row + ulong(c / 16) * 144;
        return Packed{read_head(b), *(device const uint2*)(b + 16 + 8 * (c % 16))};
    }
    static inline void unpack(thread const Packed& p, uint c, thread float* w) {
        float4 s = p.head.scales(c % 16 / 4);
        nibbles(p.q, s.x, s.y, s.z, s.w, w);
    }
    static inline uint at(uint c, uint i) { return k_at(c, i); }
};

struct Q5_K {
    enum { block = 256, bytes = 176 };
    struct Packed {
        KHead head;
        uint2 high, q;
    };
    static inline Packed fetch(device const uchar* row, uint c, uint) {
        device const uchar* b = row + ulong(c / 16) * 176;
        return Packed{read_head(b), *(device const uint2*)(b + 16 + 8 * (c & 3)), *(device const uint2*)(b + 48 + 8 * (c % 16))};
    }
    static inline void unpack(thread const Packed& p, uint c, thread float* w) {
        uint j = c % 16 / 4;
        float4 s = p.head.scales(j);
        UNROLL for (uint i = 0; i < 8; i++) {
            uint bits = p.high[i / 4] >> (2 * j), at = 8 * (i % 4);
            w[i] = fma(s.x, five(p.q[i / 4], at, bits, at, 0), s.y);
            w[i + 8] = fma(s.z, five(p.q[i / 4], at + 4, bits, at + 1, 0), s.w);
        }
    }
    static inline uint at(uint c, uint i) { return k_at(c, i); }
};

// sixteenth returns the position in the row at which weights 4i to 4i+3 of chunk c begin. It is for
// blocks of 256 weights in which the weights of one byte are 32 positions apart. A chunk is 4 bytes
// of a half-block of 128 weights.
inline uint sixteenth(uint c, uint i) { return 256 * (c / 16) + 128 * (c % 16 / 8) + 4 * (c & 7) + 32 * i; }

// sixes writes four weights d·(q-32) to w, where the bytes of v are the six-bit numbers q.
inline void sixes(uint v, float d, thread float* w) {
    float d8 = d * by_256;
    w[0] = d * number(v, 0x3f, 0x20);
    w[1] = d8 * number(v, 0x3f00, 0x2000);
    w[2] = d * number(v >> 16, 0x3f, 0x20);
    w[3] = d8 * number(v >> 16, 0x3f00, 0x2000);
}

// A Q6_K block has two halves of 128 weights. Each half has 64 bytes of low bits, 32 bytes of high
// bits and 8 scales. A chunk is 4 bytes of the high bits, with 4 weights in each quarter of the
// half.
struct Q6_K {
    enum { block = 256, bytes = 210 };
    struct Packed {
        uint low, next, high, scales;
        float d;
    };
    static inline Packed fetch(device const uchar* row, uint c, uint) {
        device const uchar* b = row + ulong(c / 16) * 210;
        uint h = c % 16 / 8, l = 4 * (c & 7);
        device const uchar* scales = b + 192 + 8 * h + l / 16;
        uint four = uint(scales[0]) | uint(scales[2]) << 8 | uint(scales[4]) << 16 | uint(scales[6]) << 24;
        return Packed{read_4(b + 64 * h + l), read_4(b + 64 * h + l + 32), read_4(b + 128 + 32 * h + l), four, read_half(b + 208)};
    }
    static inline void unpack(thread const Packed& p, uint, thread float* w) {
        sixes((p.low & 0x0f0f0f0f) | (p.high & 0x03030303) << 4, p.d * signed_byte(p.scales & 255), w);
        sixes((p.next & 0x0f0f0f0f) | (p.high & 0x0c0c0c0c) << 2, p.d * signed_byte(p.scales >> 8 & 255), w + 4);
        sixes((p.low >> 4 & 0x0f0f0f0f) | (p.high & 0x30303030), p.d * signed_byte(p.scales >> 16 & 255), w + 8);
        sixes((p.next >> 4 & 0x0f0f0f0f) | (p.high & 0xc0c0c0c0) >> 2, p.d * signed_byte(p.scales >> 24), w + 12);
    }
    static inline uint at(uint c, uint i) { return sixteenth(c, i); }
};

// A Q2_K block has two halves with 32 bytes of weights each. Each byte of scales has a scale and a
// minimum for 16 weights.
struct Q2_K : Unfetched<Q2_K> {
    enum { block = 256, bytes = 84 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 84;
        uint h = c % 16 / 8, l = 4 * (c & 7), q = read_4(b + 16 + 32 * h + l);
        float d = read_half(b + 80), m = -read_half(b + 82);
        device const uchar* scales = b + 8 * h + l / 16;
        UNROLL for (uint i = 0; i < 4; i++) {
            uint s = scales[2 * i];
            float d1 = d * number(s, 15, 0), m1 = m * by_16 * number(s, 0xf0, 0);
            UNROLL for (uint j = 0; j < 4; j++) w[4 * i + j] = fma(d1, number(q >> (8 * j + 2 * i), 3, 0), m1);
        }
    }
    static inline uint at(uint c, uint i) { return sixteenth(c, i); }
};

// A Q3_K block has the weights' third bits, then two low bits per weight as in Q2_K, then 16
// six-bit scales: their four low bits in bytes 0 to 7, their two high bits in bytes 8 to 11.
struct Q3_K : Unfetched<Q3_K> {
    enum { block = 256, bytes = 110 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 110;
        uint h = c % 16 / 8, l = 4 * (c & 7), q = read_4(b + 32 + 32 * h + l), high = read_4(b + l) >> (4 * h);
        float d = read_half(b + 108);
        device const uchar* scales = b + 96;
        UNROLL for (uint i = 0; i < 4; i++) {
            uint s = 8 * h + 2 * i + l / 16;
            float d1 = d * number(((scales[s % 8] >> (s / 8 * 4)) & 15) | ((scales[8 + s % 4] >> (s / 4 * 2)) & 3) << 4, 63, 32);
            UNROLL for (uint j = 0; j < 4; j++) {
                w[4 * i + j] = d1 * number(((q >> (8 * j + 2 * i)) & 3) | ((high >> (8 * j + i)) & 1) << 2, 7, 4);
            }
        }
    }
    static inline uint at(uint c, uint i) { return sixteenth(c, i); }
};

// A four-bit code is an index into a table of 16 values, stored as bytes plus 128. The table is not
// an array in constant memory, since drivers for languages other than Metal's do not have that
// address space.
struct Codes4 {
    static inline uint word(uint i) { return i < 2 ? (i < 1 ? 0x3f2d1801 : 0x766a5d4f) : (i < 3 ? 0xa6998d81 : 0xf1d9c5b5); }
};
struct CodesMX {
    static inline uint word(uint i) { return i < 2 ? (i < 1 ? 0x83828180 : 0x8c888684) : (i < 3 ? 0x7d7e7f80 : 0x74787a7c); }
};

template <typename T>
inline float code(uint v) { return number(T::word(v / 4 & 3) >> (8 * (v & 3)), 255, 128); }

// codes unpacks 8 bytes of codes: first the values of their low halves, then those of their high
// halves.
template <typename T>
inline void codes(device const uchar* q, float d, thread float* w) {
    UNROLL for (uint i = 0; i < 8; i++) {
        w[i] = d * code<T>(q[i]);
        w[i + 8] = d * code<T>(uint(q[i]) >> 4);
    }
}

struct IQ4_NL : Unfetched<IQ4_NL> {
    enum { block = 32, bytes = 18 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 18;
        codes<Codes4>(b + 2 + 8 * (c & 1), read_half(b), w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// IQ4_XS has a six-bit scale for each 32 weights: its two high bits are in bytes 2 and 3, its four
// low bits in bytes 4 to 7.
struct IQ4_XS : Unfetched<IQ4_XS> {
    enum { block = 256, bytes = 136 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 136;
        uint s = c % 16 / 2;
        float scale = number(((b[4 + s / 2] >> (s % 2 * 4)) & 15) | ((b[2 + s / 4] >> (s % 4 * 2)) & 3) << 4, 63, 32);
        codes<Codes4>(b + 8 + 16 * s + 8 * (c & 1), read_half(b) * scale, w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// The first byte of an MXFP4 block is the exponent of its scale, a power of two. Blocks are not
// aligned.
struct MXFP4 : Unfetched<MXFP4> {
    enum { block = 32, bytes = 17 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 17;
        uint e = b[0];
        codes<CodesMX>(b + 1 + 8 * (c & 1), as_type<float>(e < 2 ? 0x00200000 << e : (e - 1) << 23), w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// float_byte returns half of a scale of NVFP4, because the values of its codes are doubled. The
// byte has four bits of exponent and three of mantissa. 127 stands for 0.
inline float float_byte(uint v) {
    if (v == 127) return 0;
    v &= 127;
    return v < 8 ? number(v, 7, 0) * (1.0f / 1024) : as_type<float>((v << 20) + (119u << 23));
}

// An NVFP4 block has four runs of 16 weights. Their scales are the first four bytes.
struct NVFP4 : Unfetched<NVFP4> {
    enum { block = 64, bytes = 36 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 4) * 36;
        codes<CodesMX>(b + 4 + 8 * (c & 3), float_byte(b[c & 3]), w);
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// NVFP4_F32 is NVFP4 whose blocks begin with a float, by which their weights are multiplied.
struct NVFP4_F32 : Unfetched<NVFP4_F32> {
    enum { block = 64, bytes = 40 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 4) * 40;
        codes<CodesMX>(b + 8 + 8 * (c & 3), float_byte(b[4 + (c & 3)]) * *(device const float*)b, w);
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

#include "grids.h"
