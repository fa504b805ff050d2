// The types of weights that store points of grids instead of weights, and the ternary types. A
// point has the codes of 8 or 4 weights (engine/gguf/grid.go). quants.h describes the members of
// the types.
#include "bits.h"

TABLE ushort grid_iq2_xxs[256] = {GRID_IQ2_XXS};
TABLE ushort grid_iq2_xs[512] = {GRID_IQ2_XS};
TABLE ushort grid_iq2_s[1024] = {GRID_IQ2_S};
TABLE ushort grid_iq3_xxs[256] = {GRID_IQ3_XXS};
TABLE ushort grid_iq3_s[512] = {GRID_IQ3_S};
TABLE ushort grid_iq1[2048] = {GRID_IQ1};

// even_signs returns eight signs. Seven of them are the low bits of v; the number of ones is even.
inline uint even_signs(uint v) {
    v &= 127;
    return v | ((0x6996 >> ((v ^ v >> 4) & 15)) & 1) << 7;
}

inline float with_sign(float v, uint signs, uint i) { return as_type<float>(as_type<uint>(v) ^ ((signs >> i) & 1) << 31); }

// odd_scale returns 2·s+1 for the four bits s at bit `at` of v.
inline float odd_scale(uint v, uint at) { return number((v >> at & 15) << 1 | 1, 31, 0); }

// eight_iq2 writes the eight weights of a point, whose magnitudes are 8, 25 and 43 times d.
inline void eight_iq2(uint point, uint signs, float d, thread float* w) {
    UNROLL for (uint i = 0; i < 8; i++) w[i] = with_sign(d * number(0x2b1908 >> (8 * (point >> (2 * i) & 3)), 255, 0), signs, i);
}

// Chunks are 16 weights in order.
inline uint in_order(uint c, uint i) { return 16 * c + 4 * i; }

// IQ2_XXS has 8 bytes for each 32 weights: four indices, four times seven signs, and a scale of
// four bits.
struct IQ2_XXS : Unfetched<IQ2_XXS> {
    enum { block = 256, bytes = 66 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 66;
        device const uchar* p = b + 2 + 8 * (c % 16 / 2);
        uint word = read_4(p + 4), half_of = 2 * (c & 1);
        float d = read_half(b) * 0.125f * odd_scale(word, 28);
        UNROLL for (uint i = 0; i < 2; i++) eight_iq2(grid_iq2_xxs[p[half_of + i]], even_signs(word >> (7 * (half_of + i))), d, w + 8 * i);
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// IQ2_XS has an index of nine bits and seven signs for each eight weights, then a scale of four
// bits for each 16 weights.
struct IQ2_XS : Unfetched<IQ2_XS> {
    enum { block = 256, bytes = 74 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 74;
        uint k = c % 16, both = read_4(b + 2 + 4 * k);
        float d = read_half(b) * 0.125f * odd_scale(b[66 + k / 2], k % 2 * 4);
        UNROLL for (uint i = 0; i < 2; i++) eight_iq2(grid_iq2_xs[both >> (16 * i) & 511], even_signs(both >> (16 * i + 9)), d, w + 8 * i);
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// IQ2_S has the low eight bits of 32 indices, their signs, their two high bits, and a scale of four
// bits for each 16 weights.
struct IQ2_S : Unfetched<IQ2_S> {
    enum { block = 256, bytes = 82 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 82;
        uint k = c % 16, high = uint(b[66 + k / 2]) >> (k % 2 * 4);
        float d = read_half(b) * 0.125f * odd_scale(b[74 + k / 2], k % 2 * 4);
        UNROLL for (uint i = 0; i < 2; i++) eight_iq2(grid_iq2_s[b[2 + 2 * k + i] | (high >> (2 * i) & 3) << 8], b[34 + 2 * k + i], d, w + 8 * i);
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// IQ3_XXS has 64 indices of four weights each, and a word as in IQ2_XXS for each 32 weights. The
// magnitudes are 4, 12, 20, 28, 36, 44, 52 and 62.
struct IQ3_XXS : Unfetched<IQ3_XXS> {
    enum { block = 256, bytes = 98 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 98;
        uint k = c % 16, word = read_4(b + 66 + 4 * (k / 2));
        float d = read_half(b) * 0.25f * odd_scale(word, 28);
        UNROLL for (uint i = 0; i < 4; i++) {
            uint point = grid_iq3_xxs[b[2 + 4 * k + i]], signs = even_signs(word >> (14 * (k & 1) + 7 * (i / 2))) >> (4 * (i & 1));
            UNROLL for (uint j = 0; j < 4; j++) {
                uint v = point >> (3 * j);
                w[4 * i + j] = with_sign(d * number((v & 4 ? 0x3e342c24 : 0x1c140c04) >> (8 * (v & 3)), 255, 0), signs, j);
            }
        }
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// IQ3_S has the low eight bits of 64 indices, their ninth bits, all signs, and a scale of four bits
// for each 32 weights. The magnitudes are odd.
struct IQ3_S : Unfetched<IQ3_S> {
    enum { block = 256, bytes = 110 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 110;
        uint k = c % 16, high = uint(b[66 + k / 2]) >> (k % 2 * 4);
        uint signs = uint(b[74 + 2 * k]) | uint(b[75 + 2 * k]) << 8;
        float d = read_half(b) * odd_scale(b[106 + k / 4], k / 2 % 2 * 4);
        UNROLL for (uint i = 0; i < 4; i++) {
            uint point = grid_iq3_s[b[2 + 4 * k + i] | (high >> i & 1) << 8];
            UNROLL for (uint j = 0; j < 4; j++) w[4 * i + j] = with_sign(d * number((point >> (3 * j) & 7) << 1 | 1, 15, 0), signs, 4 * i + j);
        }
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// eight_iq1 writes the eight weights of a point: -1, 0 or 1, plus or, with a shift, minus an
// eighth, times d. In eighths, a weight is an integer: an addition after number would not be exact
// in fast arithmetic, which may change the order of additions.
inline void eight_iq1(uint point, uint shift, float d, thread float* w) {
    uint eighth = 2 - 2 * (shift & 1);
    UNROLL for (uint i = 0; i < 8; i++) w[i] = d / 8 * number(8 * (point >> (2 * i) & 3) + eighth, 31, 9);
}

// IQ1_S has the low eight bits of 32 indices and a word of 16 bits for each 32 weights: four times
// three high bits, a scale of three bits, and the sign of the shift.
struct IQ1_S : Unfetched<IQ1_S> {
    enum { block = 256, bytes = 50 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 50;
        uint k = c % 16, word = uint(b[34 + k / 2 * 2]) | uint(b[35 + k / 2 * 2]) << 8;
        float d = read_half(b) * odd_scale(word >> 12 & 7, 0);
        UNROLL for (uint i = 0; i < 2; i++) eight_iq1(grid_iq1[b[2 + 2 * k + i] | (word >> (6 * (k & 1) + 3 * i) & 7) << 8], word >> 15, d, w + 8 * i);
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// IQ1_M has the low eight bits of 32 indices, and four bits for each: three high bits and the sign
// of the shift. Four words of 16 bits follow, each with four scales of three bits and, above them,
// four bits of the block's float16.
struct IQ1_M : Unfetched<IQ1_M> {
    enum { block = 256, bytes = 56 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 56;
        uint k = c % 16, high = b[32 + k];
        ushort4 words = read_8(b + 48);
        uint bits = (words.x >> 12) | (words.y >> 8 & 0xf0) | (words.z >> 4 & 0xf00) | (words.w & 0xf000);
        float d = float(as_type<half>(ushort(bits))) * odd_scale(words[k / 4] >> (3 * (k % 4)) & 7, 0);
        UNROLL for (uint i = 0; i < 2; i++) eight_iq1(grid_iq1[b[2 * k + i] | (high >> (4 * i) & 7) << 8], high >> (4 * i + 3), d, w + 8 * i);
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

// TQ1_0 has 48 bytes of five ternary digits and 4 bytes of four. A byte is the fraction of 256 that
// the digits are of 243: a multiplication by 3 moves the highest digit above the byte. The first 32
// bytes have the weights of ten chunks, the next 16 those of five, the last 4 those of one.
struct TQ1_0 : Unfetched<TQ1_0> {
    enum { block = 256, bytes = 54 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 54;
        uint k = c % 16, from = k < 10 ? 16 * (k & 1) : k < 15 ? 32 : 48, place = k < 10 ? k / 2 : k - 10;
        float d = read_half(b + 52);
        UNROLL for (uint i = 0; i < 16; i++) {
            bool last = k == 15;
            uint v = b[from + (last ? i % 4 : i)], n = last ? i / 4 : place;
            uint power = n < 2 ? (n < 1 ? 1 : 3) : (n < 3 ? 9 : (n < 4 ? 27 : 81));
            w[i] = d * number((v * power & 255) * 3 >> 8, 3, 1);
        }
    }
    static inline uint at(uint c, uint i) { return in_order(c, i); }
};

struct TQ2_0 : Unfetched<TQ2_0> {
    enum { block = 256, bytes = 66 };
    static inline void read(device const uchar* row, uint c, uint, thread float* w) {
        device const uchar* b = row + ulong(c / 16) * 66;
        uint q = read_4(b + 32 * (c % 16 / 8) + 4 * (c & 7));
        float d = read_half(b + 64);
        UNROLL for (uint i = 0; i < 16; i++) w[i] = d * number(q >> (8 * (i % 4) + 2 * (i / 4)), 3, 1);
    }
    static inline uint at(uint c, uint i) { return sixteenth(c, i); }
};
