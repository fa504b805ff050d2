// The types of weights in GGUF files. A row of weights is read in chunks of 16. Chunk c belongs to
// lane c%32 of a simdgroup; the chunks of a lane form a strand. Every kernel sums the weights of a
// strand in the same order, and strands in the same tree, so that a product has the same bits in
// all kernels.
//
// Each type has these members:
//   load(row, c, n, w)  writes the 16 weights of chunk c of a row of n weights to w, in the order of the sum
//   at(c, i)            position in the row at which weights 4i to 4i+3 of chunk c begin
// If a chunk extends past the end of a row, its weights past the end are zeros. This occurs only in
// types without blocks.
#include "bits.h"

inline void put(float4 v, thread float* w) {
    w[0] = v.x;
    w[1] = v.y;
    w[2] = v.z;
    w[3] = v.w;
}

struct F32 {
    enum { block = 1, bytes = 4 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
        device const float* p = (device const float*)row + 16 * c;
        if (16 * c + 16 <= n) {
            UNROLL for (uint i = 0; i < 16; i += 4) put(float4(*(device const packed_float4*)(p + i)), w + i);
        } else {
            UNROLL for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? p[i] : 0.0f;
        }
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

struct F16 {
    enum { block = 1, bytes = 2 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
        device const half* p = (device const half*)row + 16 * c;
        if (16 * c + 16 <= n) {
            UNROLL for (uint i = 0; i < 16; i += 4) put(float4(half4(*(device const packed_half4*)(p + i))), w + i);
        } else {
            UNROLL for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? float(p[i]) : 0.0f;
        }
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

struct BF16 {
    enum { block = 1, bytes = 2 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
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
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// In blocks of 32 with two weights per byte, a chunk is 8 bytes: first the weights in their low
// halves, then those in their high halves.
inline uint nibbles_at(uint c, uint i) { return 32 * (c / 2) + 8 * (c & 1) + 4 * (i & 1) + 16 * (i / 2); }

struct Q4_0 {
    enum { block = 32, bytes = 18 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 18;
        float d = read_half(b), d4 = d * by_16, d8 = d * by_256, d12 = d * by_4096;
        ushort4 q = read_8(b + 2 + 8 * (c & 1));
        UNROLL for (uint i = 0; i < 4; i++) {
            w[2 * i] = d * number(q[i], 0xf, 0x8);
            w[2 * i + 1] = d8 * number(q[i], 0xf00, 0x800);
            w[2 * i + 8] = d4 * number(q[i], 0xf0, 0x80);
            w[2 * i + 9] = d12 * number(q[i], 0xf000, 0x8000);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// nibbles unpacks 16 four-bit numbers in the order of blocks of 32: d·q+m for the low halves of
// bytes, then e·q+k for the high halves.
inline void nibbles(ushort4 q, float d, float m, float e, float k, thread float* w) {
    float d8 = d * by_256, e4 = e * by_16, e12 = e * by_4096;
    UNROLL for (uint i = 0; i < 4; i++) {
        w[2 * i] = fma(d, number(q[i], 0xf, 0), m);
        w[2 * i + 1] = fma(d8, number(q[i], 0xf00, 0), m);
        w[2 * i + 8] = fma(e4, number(q[i], 0xf0, 0), k);
        w[2 * i + 9] = fma(e12, number(q[i], 0xf000, 0), k);
    }
}

struct Q4_1 {
    enum { block = 32, bytes = 20 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 20;
        float d = read_half(b), m = read_half(b + 2);
        nibbles(read_8(b + 4 + 8 * (c & 1)), d, m, d, m, w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// five returns v - zero for a five-bit number v. The low four bits of v are bits at to at+3 of q.
// Its high bit is bit i of high.
inline float five(uint q, uint at, uint high, uint i, uint zero) { return number(((q >> at) & 15) | (((high >> i) & 1) << 4), 31, zero); }

struct Q5_0 {
    enum { block = 32, bytes = 22 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
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

struct Q5_1 {
    enum { block = 32, bytes = 24 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
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
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 34;
        float d = read_half(b), d8 = d * by_256;
        b += 2 + 16 * (c & 1);
        ushort4 q[2] = {read_8(b), read_8(b + 8)};
        UNROLL for (uint i = 0; i < 8; i++) {
            uint v = q[i / 4][i % 4] ^ 0x8080;  // signed bytes, plus 128
            w[2 * i] = d * number(v, 0xff, 0x80);
            w[2 * i + 1] = d8 * number(v, 0xff00, 0x8000);
        }
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// k_scales returns the 6-bit scale and minimum of sub-block 2j (x, y) and of sub-block 2j+1 (z, w).
// q are the 12 bytes of scales of a Q4_K or Q5_K block. Scales and minima of the first four
// sub-blocks are the low bits of bytes 0 to 7; the others are in bytes 8 to 11 and in the high bits
// of bytes 0 to 7.
inline float4 k_scales(device const uchar* q, uint j) {
    q += 2 * (j & 1);
    uint low = *(device const ushort*)q, next = *(device const ushort*)(q + 4), high = *(device const ushort*)(q + 8);
    uint scales = j < 2 ? low & 0x3f3f : (high & 0x0f0f) | ((low >> 2) & 0x3030);
    uint minima = j < 2 ? next & 0x3f3f : ((high >> 4) & 0x0f0f) | ((next >> 2) & 0x3030);
    return float4(number(scales, 0x3f, 0), number(minima, 0x3f, 0), number(scales, 0x3f00, 0) * by_256, number(minima, 0x3f00, 0) * by_256);
}

// In blocks of 256, 32 bytes hold two sub-blocks of 32 weights: one in the low halves of the bytes,
// one in the high halves. A chunk is 8 of these bytes.
inline uint k_at(uint c, uint i) { return 256 * (c / 16) + 64 * (c % 16 / 4) + 8 * (c & 3) + 4 * (i & 1) + 32 * (i / 2); }

struct Q4_K {
    enum { block = 256, bytes = 144 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 144;
        uint j = c % 16 / 4;
        float d = read_half(b), m = -read_half(b + 2);
        float4 s = k_scales(b + 4, j);
        nibbles(read_8(b + 16 + 32 * j + 8 * (c & 3)), d * s.x, m * s.y, d * s.z, m * s.w, w);
    }
    static inline uint at(uint c, uint i) { return k_at(c, i); }
};

struct Q5_K {
    enum { block = 256, bytes = 176 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 176;
        uint j = c % 16 / 4;
        float d = read_half(b), m = -read_half(b + 2);
        float4 s = k_scales(b + 4, j);
        float d1 = d * s.x, m1 = m * s.y, d2 = d * s.z, m2 = m * s.w;
        ushort4 high = read_8(b + 16 + 8 * (c & 3)), q = read_8(b + 48 + 32 * j + 8 * (c & 3));
        UNROLL for (uint i = 0; i < 8; i++) {
            uint bits = high[i / 2] >> (2 * j);
            w[i] = fma(d1, five(q[i / 2], 8 * (i & 1), bits, 8 * (i & 1), 0), m1);
            w[i + 8] = fma(d2, five(q[i / 2], 8 * (i & 1) + 4, bits, 8 * (i & 1) + 1, 0), m2);
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
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 210;
        uint h = c % 16 / 8, l = 4 * (c & 7);
        float d = read_half(b + 208);
        uint low = read_4(b + 64 * h + l), next = read_4(b + 64 * h + l + 32), high = read_4(b + 128 + 32 * h + l);
        device const uchar* scales = b + 192 + 8 * h + l / 16;
        sixes((low & 0x0f0f0f0f) | (high & 0x03030303) << 4, d * signed_byte(scales[0]), w);
        sixes((next & 0x0f0f0f0f) | (high & 0x0c0c0c0c) << 2, d * signed_byte(scales[2]), w + 4);
        sixes((low >> 4 & 0x0f0f0f0f) | (high & 0x30303030), d * signed_byte(scales[4]), w + 8);
        sixes((next >> 4 & 0x0f0f0f0f) | (high & 0xc0c0c0c0) >> 2, d * signed_byte(scales[6]), w + 12);
    }
    static inline uint at(uint c, uint i) { return sixteenth(c, i); }
};

// A Q2_K block has two halves with 32 bytes of weights each. Each byte of scales has a scale and a
// minimum for 16 weights.
struct Q2_K {
    enum { block = 256, bytes = 84 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
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
struct Q3_K {
    enum { block = 256, bytes = 110 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
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

struct IQ4_NL {
    enum { block = 32, bytes = 18 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 18;
        codes<Codes4>(b + 2 + 8 * (c & 1), read_half(b), w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// IQ4_XS has a six-bit scale for each 32 weights: its two high bits are in bytes 2 and 3, its four
// low bits in bytes 4 to 7.
struct IQ4_XS {
    enum { block = 256, bytes = 136 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 136;
        uint s = c % 16 / 2;
        float scale = number(((b[4 + s / 2] >> (s % 2 * 4)) & 15) | ((b[2 + s / 4] >> (s % 4 * 2)) & 3) << 4, 63, 32);
        codes<Codes4>(b + 8 + 16 * s + 8 * (c & 1), read_half(b) * scale, w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// The first byte of an MXFP4 block is the exponent of its scale, a power of two. Blocks are not
// aligned.
struct MXFP4 {
    enum { block = 32, bytes = 17 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 17;
        uint e = b[0];
        codes<CodesMX>(b + 1 + 8 * (c & 1), as_type<float>(e < 2 ? 0x00200000 << e : (e - 1) << 23), w);
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// load_inputs reads the activations for the weights of chunk c.
template <typename W>
inline void load_inputs(device const float* x, uint c, uint n, thread float* v) {
    UNROLL for (uint i = 0; i < 4; i++) {
        uint k = W::at(c, i);
        if (W::block > 1 || k + 4 <= n) {
            put(float4(*(device const packed_float4*)(x + k)), v + 4 * i);
        } else {
            UNROLL for (uint j = 0; j < 4; j++) v[4 * i + j] = k + j < n ? x[k + j] : 0.0f;
        }
    }
}

// add_chunk adds the product of a chunk of weights and its inputs to a sum.
inline float add_chunk(thread const float* weights, thread const float* inputs, float sum) {
    UNROLL for (uint i = 0; i < 16; i++) sum = fma(weights[i], inputs[i], sum);
    return sum;
}

// products multiplies R rows of weights with N rows of activations: sums[r*N+j] is row r of weights
// times row j of activations. A lane dequantises its chunks once for all N rows. If w_rows < R or
// x_rows < N, the missing rows repeat the last row. If there are fewer rows of weights than of
// activations, the weights are held in registers and the activations are read row by row.
// Otherwise, the activations are held in registers and the weights are read row by row.
template <typename W, uint R, uint N>
inline void products(device const uchar* w, uint row_bytes, uint w_rows, device const float* x, uint x_stride, uint x_rows, uint n, uint lane, thread float* sums) {
    UNROLL for (uint i = 0; i < R * N; i++) sums[i] = 0;
    for (uint c = lane; 16 * c < n; c += 32) {
        if (N < R) {
            float inputs[N][16];
            UNROLL for (uint j = 0; j < N; j++) load_inputs<W>(x + min(j, x_rows - 1) * x_stride, c, n, inputs[j]);
            UNROLL for (uint r = 0; r < R; r++) {
                float weights[16];
                W::load(w + ulong(min(r, w_rows - 1)) * row_bytes, c, n, weights);
                UNROLL for (uint j = 0; j < N; j++) sums[r * N + j] = add_chunk(weights, inputs[j], sums[r * N + j]);
            }
        } else {
            float weights[R][16];
            UNROLL for (uint r = 0; r < R; r++) W::load(w + ulong(min(r, w_rows - 1)) * row_bytes, c, n, weights[r]);
            UNROLL for (uint j = 0; j < N; j++) {
                float inputs[16];
                load_inputs<W>(x + min(j, x_rows - 1) * x_stride, c, n, inputs);
                UNROLL for (uint r = 0; r < R; r++) sums[r * N + j] = add_chunk(weights[r], inputs, sums[r * N + j]);
            }
        }
    }
    tree_sums<R * N>(sums);
}
