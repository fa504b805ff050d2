// The largest values of a row.
#include "defs.h"

// Place is a value and its index.
struct Place {
    float value;
    uint index;
};
constant uint none = 0xffffffff;  // Place.index if there is no value

// before reports whether value a at index i comes before value b at index j: larger values come
// first, and among equal values the lower index.
inline bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// best_of returns the first place among the places p of all threads. values and indices have an
// element per simdgroup.
inline Place best_of(Place p, threadgroup float* values, threadgroup uint* indices, uint lane, uint simdgroup, uint simdgroups) {
    float top = simd_max(p.value);
    uint index = simd_min(p.value == top ? p.index : none);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) {
        values[simdgroup] = top;
        indices[simdgroup] = index;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Place best = {-INFINITY, none};
    for (uint i = 0; i < simdgroups; i++) {
        if (before(values[i], indices[i], best.value, best.index)) {
            best.value = values[i];
            best.index = indices[i];
        }
    }
    return best;
}

// is_finite tests the bits of the exponent, since fast arithmetic may assume that all values are
// finite.
inline bool is_finite(float v) { return (as_type<uint>(v) & 0x7f800000) != 0x7f800000; }

// is_impossible reports whether a logit is -infinity, that of a token that is never drawn.
inline bool is_impossible(float v) { return as_type<uint>(v) == 0xff800000; }
