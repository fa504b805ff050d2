// The types of weights, as GGUF files have them. A row of weights is read in chunks of 16; chunk c belongs to lane c%32 of
// a simdgroup. Every kernel that multiplies sums a row's chunks and their weights in the same order, so that a product has
// the same bits in all of them.
//
// Each type has
//   load(row, c, n, w)  the 16 weights of chunk c of a row of n, in the order in which they are summed
//   at(c, i)            where in the row weights 4i to 4i+3 of these stand
// A chunk that reaches past the end of a row has zeros there; only types without blocks have such.
#include "defs.h"

inline ushort read16(device const uchar* p) { return *(device const ushort*)p; }
inline uint read32(device const uchar* p) { return uint(read16(p)) | uint(read16(p + 2)) << 16; }
inline float read_half(device const uchar* p) { return float(*(device const half*)p); }
inline uint byte_of(uint v, uint i) { return (v >> (8 * i)) & 255; }
inline float signed_byte(uint v) { return float(int(v << 24) >> 24); }

struct F32 {
    enum { block = 1, bytes = 4 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
        device const float* p = (device const float*)row + 16 * c;
        for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? p[i] : 0.0f;
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

struct F16 {
    enum { block = 1, bytes = 2 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
        device const half* p = (device const half*)row + 16 * c;
        for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? float(p[i]) : 0.0f;
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

struct BF16 {
    enum { block = 1, bytes = 2 };
    static inline void load(device const uchar* row, uint c, uint n, thread float* w) {
        device const ushort* p = (device const ushort*)row + 16 * c;
        for (uint i = 0; i < 16; i++) w[i] = 16 * c + i < n ? as_type<float>(uint(p[i]) << 16) : 0.0f;
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// In blocks of 32 with two weights a byte, a chunk is 8 bytes: their low halves, then their high halves.
inline uint nibbles_at(uint c, uint i) { return 32 * (c / 2) + 8 * (c & 1) + 4 * (i & 1) + 16 * (i / 2); }

struct Q4_0 {
    enum { block = 32, bytes = 18 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 18;
        float d = read_half(b);
        b += 2 + 8 * (c & 1);
        for (uint i = 0; i < 4; i++) {
            uint q = read16(b + 2 * i);
            w[2 * i] = d * float(int(q & 15) - 8);
            w[2 * i + 1] = d * float(int((q >> 8) & 15) - 8);
            w[2 * i + 8] = d * float(int((q >> 4) & 15) - 8);
            w[2 * i + 9] = d * float(int(q >> 12) - 8);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

struct Q4_1 {
    enum { block = 32, bytes = 20 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 20;
        float d = read_half(b), m = read_half(b + 2);
        b += 4 + 8 * (c & 1);
        for (uint i = 0; i < 4; i++) {
            uint q = read16(b + 2 * i);
            w[2 * i] = fma(d, float(q & 15), m);
            w[2 * i + 1] = fma(d, float((q >> 8) & 15), m);
            w[2 * i + 8] = fma(d, float((q >> 4) & 15), m);
            w[2 * i + 9] = fma(d, float(q >> 12), m);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

// fifth is bit i of the high bits of a block, as the fifth bit of a weight.
inline uint fifth(uint high, uint i) { return ((high >> i) & 1) << 4; }

struct Q5_0 {
    enum { block = 32, bytes = 22 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 22;
        float d = read_half(b);
        uint high = read32(b + 2) >> (8 * (c & 1));
        b += 6 + 8 * (c & 1);
        for (uint i = 0; i < 8; i++) {
            uint q = uint(read16(b + (i & 6))) >> (8 * (i & 1));
            w[i] = d * float(int((q & 15) | fifth(high, i)) - 16);
            w[i + 8] = d * float(int(((q >> 4) & 15) | fifth(high, i + 16)) - 16);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

struct Q5_1 {
    enum { block = 32, bytes = 24 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 24;
        float d = read_half(b), m = read_half(b + 2);
        uint high = read32(b + 4) >> (8 * (c & 1));
        b += 8 + 8 * (c & 1);
        for (uint i = 0; i < 8; i++) {
            uint q = uint(read16(b + (i & 6))) >> (8 * (i & 1));
            w[i] = fma(d, float((q & 15) | fifth(high, i)), m);
            w[i + 8] = fma(d, float(((q >> 4) & 15) | fifth(high, i + 16)), m);
        }
    }
    static inline uint at(uint c, uint i) { return nibbles_at(c, i); }
};

struct Q8_0 {
    enum { block = 32, bytes = 34 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 2) * 34;
        float d = read_half(b);
        b += 2 + 16 * (c & 1);
        for (uint i = 0; i < 8; i++) {
            uint q = read16(b + 2 * i);
            w[2 * i] = d * signed_byte(q & 255);
            w[2 * i + 1] = d * signed_byte(q >> 8);
        }
    }
    static inline uint at(uint c, uint i) { return 16 * c + 4 * i; }
};

// k_scale unpacks the 6-bit scale and minimum of sub-block j of a Q4_K or Q5_K block from its 12 bytes q.
inline float2 k_scale(device const uchar* q, uint j) {
    if (j < 4) return float2(float(q[j] & 63), float(q[j + 4] & 63));
    return float2(float((q[j + 4] & 15) | ((q[j - 4] >> 6) << 4)), float((q[j + 4] >> 4) | ((q[j] >> 6) << 4)));
}

// In blocks of 256, 32 bytes hold two sub-blocks of 32, in their low and high halves; a chunk is 8 of these bytes.
inline uint k_at(uint c, uint i) { return 256 * (c / 16) + 64 * (c % 16 / 4) + 8 * (c & 3) + 4 * (i & 1) + 32 * (i / 2); }

struct Q4_K {
    enum { block = 256, bytes = 144 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 144;
        uint j = c % 16 / 4;
        float d = read_half(b), m = -read_half(b + 2);
        float2 low = k_scale(b + 4, 2 * j), high = k_scale(b + 4, 2 * j + 1);
        float d1 = d * low.x, m1 = m * low.y, d2 = d * high.x, m2 = m * high.y;
        b += 16 + 32 * j + 8 * (c & 3);
        for (uint i = 0; i < 4; i++) {
            uint q = read16(b + 2 * i);
            w[2 * i] = fma(d1, float(q & 15), m1);
            w[2 * i + 1] = fma(d1, float((q >> 8) & 15), m1);
            w[2 * i + 8] = fma(d2, float((q >> 4) & 15), m2);
            w[2 * i + 9] = fma(d2, float(q >> 12), m2);
        }
    }
    static inline uint at(uint c, uint i) { return k_at(c, i); }
};

struct Q5_K {
    enum { block = 256, bytes = 176 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 176;
        uint j = c % 16 / 4;
        float d = read_half(b), m = -read_half(b + 2);
        float2 low = k_scale(b + 4, 2 * j), high = k_scale(b + 4, 2 * j + 1);
        float d1 = d * low.x, m1 = m * low.y, d2 = d * high.x, m2 = m * high.y;
        device const uchar* h = b + 16 + 8 * (c & 3);
        b += 48 + 32 * j + 8 * (c & 3);
        for (uint i = 0; i < 8; i++) {
            uint q = uint(read16(b + (i & 6))) >> (8 * (i & 1));
            uint bits = uint(read16(h + (i & 6))) >> (8 * (i & 1) + 2 * j);
            w[i] = fma(d1, float((q & 15) | (bits & 1) << 4), m1);
            w[i + 8] = fma(d2, float(((q >> 4) & 15) | (bits & 2) << 3), m2);
        }
    }
    static inline uint at(uint c, uint i) { return k_at(c, i); }
};

// A half of a Q6_K block has 64 bytes of low bits, 32 of high bits and 8 scales. A chunk is 4 bytes of the high bits: 4
// weights in each quarter of the half.
struct Q6_K {
    enum { block = 256, bytes = 210 };
    static inline void load(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 210;
        uint h = c % 16 / 8, l = 4 * (c & 7);
        float d = read_half(b + 208);
        uint low = read32(b + 64 * h + l), next = read32(b + 64 * h + l + 32), high = read32(b + 128 + 32 * h + l);
        device const uchar* scales = b + 192 + 8 * h + l / 16;
        float d0 = d * signed_byte(scales[0]), d1 = d * signed_byte(scales[2]), d2 = d * signed_byte(scales[4]), d3 = d * signed_byte(scales[6]);
        for (uint i = 0; i < 4; i++) {
            uint p = byte_of(low, i), q = byte_of(next, i), bits = byte_of(high, i);
            w[i] = d0 * float(int((p & 15) | (bits & 3) << 4) - 32);
            w[i + 4] = d1 * float(int((q & 15) | (bits & 12) << 2) - 32);
            w[i + 8] = d2 * float(int(p >> 4 | (bits & 48)) - 32);
            w[i + 12] = d3 * float(int(q >> 4 | (bits & 192) >> 2) - 32);
        }
    }
    static inline uint at(uint c, uint i) { return 256 * (c / 16) + 128 * (c % 16 / 8) + 4 * (c & 7) + 32 * i; }
};

// load_inputs reads what the weights of chunk c multiply.
template <typename W>
inline void load_inputs(device const float* x, uint c, uint n, thread float* v) {
    for (uint i = 0; i < 4; i++) {
        uint k = W::at(c, i);
        if (W::block > 1 || k + 4 <= n) {
            float4 four = *(device const packed_float4*)(x + k);
            v[4 * i] = four.x;
            v[4 * i + 1] = four.y;
            v[4 * i + 2] = four.z;
            v[4 * i + 3] = four.w;
        } else {
            for (uint j = 0; j < 4; j++) v[4 * i + j] = k + j < n ? x[k + j] : 0.0f;
        }
    }
}

// products multiplies R rows of weights with N rows of activations: sums[r*N+j] is row r times row j. A lane dequantises
// its chunks once for all N. Of the rows only the first w_rows and x_rows are there; the others repeat the last.
template <typename W, uint R, uint N>
inline void products(device const uchar* w, uint row_bytes, uint w_rows, device const float* x, uint x_stride, uint x_rows, uint n, uint lane, thread float* sums) {
    for (uint i = 0; i < R * N; i++) sums[i] = 0;
    for (uint c = lane; 16 * c < n; c += 32) {
        float weights[R][16];
        for (uint r = 0; r < R; r++) W::load(w + ulong(min(r, w_rows - 1)) * row_bytes, c, n, weights[r]);
        for (uint j = 0; j < N; j++) {
            float inputs[16];
            load_inputs<W>(x + min(j, x_rows - 1) * x_stride, c, n, inputs);
            for (uint r = 0; r < R; r++) {
                for (uint i = 0; i < 16; i++) sums[r * N + j] = fma(weights[r][i], inputs[i], sums[r * N + j]);
            }
        }
    }
    tree_sums(sums, R * N);
}
