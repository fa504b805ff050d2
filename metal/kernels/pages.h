// The layout of KV pages. The pages of a layer are consecutive. For each head, a page has one row
// per position. The number of a row is (page*heads + head)*page_size + slot. Keys and values may be
// quantised.
//
// Each type of pages has these members:
//   row_bytes(dims)            bytes of a row
//   at(row, d)                 value d
//   four(row, d)               values d to d+3; d is a multiple of 4
//   Four                       what fetch reads of four values
//   fetch(row, d, n)           reads values d to d+3 of a row of n; past its end they are zeros
//   values(four)               the values that fetch has read
//   store(row, src, dims, ...) called by a whole simdgroup
#include "bits.h"
#include "slots.h"

// aligned_pages is 1 if keys and values have a multiple of four dimensions, so that four values are
// aligned like a vector.
CONSTANT(uint, aligned_pages, 0)

// Evaluated is a base of types whose values are computed when they are fetched.
template <typename P>
struct Evaluated {
    typedef float4 Four;
    static inline Four fetch(device const uchar* row, uint d, uint n) {
        if (d + 4 <= n) return P::four(row, d);
        if (aligned_pages != 0 || d >= n) return float4(0.0f);
        return float4(P::at(row, d), d + 1 < n ? P::at(row, d + 1) : 0.0f, d + 2 < n ? P::at(row, d + 2) : 0.0f, 0.0f);
    }
    static inline float4 values(Four four) { return four; }
};

struct PageF32 : Evaluated<PageF32> {
    static inline uint row_bytes(uint dims) { return 4 * dims; }
    static inline float at(device const uchar* row, uint d) { return ((device const float*)row)[d]; }
    static inline float4 four(device const uchar* row, uint d) {
        return aligned_pages != 0 ? float4(*(device const float4*)(row + 4 * d)) : float4(*(device const packed_float4*)(row + 4 * d));
    }
    static inline void store(device uchar* row, device const float* src, uint dims, uint lane) {
        for (uint d = lane; d < dims; d += 32) ((device float*)row)[d] = src[d];
    }
};

struct PageF16 {
    static inline uint row_bytes(uint dims) { return 2 * dims; }
    static inline float at(device const uchar* row, uint d) { return float(((device const half*)row)[d]); }
    static inline float4 four(device const uchar* row, uint d) {
        return aligned_pages != 0 ? float4(half4(*(device const half4*)(row + 2 * d))) : float4(half4(*(device const packed_half4*)(row + 2 * d)));
    }
    // Four are bits, since a conversion would have to wait for the values.
    typedef uint2 Four;
    static inline uint bits(device const uchar* row, uint d, uint n) { return d < n ? ((device const ushort*)row)[d] : 0; }
    static inline Four fetch(device const uchar* row, uint d, uint n) {
        if (aligned_pages != 0) return d + 4 <= n ? uint2(*(device const uint2*)(row + 2 * d)) : uint2(0u);
        return uint2(bits(row, d, n) | bits(row, d + 1, n) << 16, bits(row, d + 2, n) | bits(row, d + 3, n) << 16);
    }
    static inline float half_of(uint bits) { return float(as_type<half>(ushort(bits & 0xffff))); }
    static inline float4 values(Four four) { return float4(half_of(four.x), half_of(four.x >> 16), half_of(four.y), half_of(four.y >> 16)); }
    static inline void store(device uchar* row, device const float* src, uint dims, uint lane) {
        for (uint d = lane; d < dims; d += 32) ((device half*)row)[d] = half(src[d]);
    }
};

struct PageQ8_0 : Evaluated<PageQ8_0> {
    static inline uint row_bytes(uint dims) { return dims / 32 * 34; }
    static inline float at(device const uchar* row, uint d) {
        device const uchar* b = row + d / 32 * 34;
        return read_half(b) * signed_byte(b[2 + d % 32]);
    }
    static inline float4 four(device const uchar* row, uint d) {
        device const uchar* b = row + d / 32 * 34;
        float scale = read_half(b), scale8 = scale * by_256;
        uint v = read_4(b + 2 + d % 32) ^ 0x80808080, high = v >> 16;  // signed bytes, plus 128
        return float4(scale * number(v, 0xff, 0x80), scale8 * number(v, 0xff00, 0x8000), scale * number(high, 0xff, 0x80), scale8 * number(high, 0xff00, 0x8000));
    }
    static inline void store(device uchar* row, device const float* src, uint dims, uint lane) {
        for (uint i = 0; i < dims / 32; i++) {
            float v = src[32 * i + lane];
            float scale = simd_max(fabs(v)) / 127.0f;
            device uchar* b = row + 34 * i;
            if (lane == 0) *(device half*)b = half(scale);
            b[2 + lane] = uchar(int(rint(scale > 0 ? v / scale : 0.0f)) & 255);
        }
    }
};

struct PageQ4_0 : Evaluated<PageQ4_0> {
    static inline uint row_bytes(uint dims) { return dims / 32 * 18; }
    static inline float at(device const uchar* row, uint d) {
        device const uchar* b = row + d / 32 * 18;
        return read_half(b) * number(b[2 + d % 16] >> (d & 16 ? 4 : 0), 15, 8);
    }
    static inline float4 four(device const uchar* row, uint d) {
        device const uchar* b = row + d / 32 * 18;
        float scale = read_half(b), scale8 = scale * by_256;
        uint v = read_4(b + 2 + d % 16) >> (d & 16 ? 4 : 0), high = v >> 16;
        return float4(scale * number(v, 0xf, 0x8), scale8 * number(v, 0xf00, 0x800), scale * number(high, 0xf, 0x8), scale8 * number(high, 0xf00, 0x800));
    }
    static inline void store(device uchar* row, device const float* src, uint dims, uint lane) {
        for (uint i = 0; i < dims / 32; i++) {
            // The value with the largest magnitude is stored as -8, so the scale has the opposite
            // sign of that value.
            float v = src[32 * i + lane];
            float highest = simd_max(v), lowest = simd_min(v);
            float scale = (highest > -lowest ? highest : lowest) / -8.0f;
            int q = clamp(int(rint(scale != 0.0f ? v / scale : 0.0f)) + 8, 0, 15);
            int high = simd_shuffle_xor(q, 16);
            device uchar* b = row + 18 * i;
            if (lane == 0) *(device half*)b = half(scale);
            if (lane < 16) b[2 + lane] = uchar(q | high << 4);
        }
    }
};
