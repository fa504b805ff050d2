// The part of Metal's language and library that is the same for every C++ compiler. A driver's
// prelude comes before it and defines uchar, ushort, uint, ulong and half.

#define INGOT_JOIN2(a, b) a##b
#define INGOT_JOIN(a, b) INGOT_JOIN2(a, b)

namespace metal {

template <class T, int N> struct vec;
template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
    T x, y;
    vec() = default;
    vec(T v) : x(v), y(v) {}
    vec(T a, T b) : x(a), y(b) {}
    template <class U> explicit vec(vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
    T& operator[](uint i) { return (&x)[i]; }
    const T& operator[](uint i) const { return (&x)[i]; }
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
    T x, y, z, w;
    vec() = default;
    vec(T v) : x(v), y(v), z(v), w(v) {}
    vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    template <class U> explicit vec(vec<U, 4> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
    T& operator[](uint i) { return (&x)[i]; }
    const T& operator[](uint i) const { return (&x)[i]; }
};

#define INGOT_OPERATOR(op)                                                                                      \
    template <class T> inline vec<T, 2> operator op(vec<T, 2> a, vec<T, 2> b) { return {T(a.x op b.x), T(a.y op b.y)}; } \
    template <class T> inline vec<T, 4> operator op(vec<T, 4> a, vec<T, 4> b) {                                  \
        return {T(a.x op b.x), T(a.y op b.y), T(a.z op b.z), T(a.w op b.w)};                                    \
    }
INGOT_OPERATOR(+)
INGOT_OPERATOR(-)
INGOT_OPERATOR(*)
INGOT_OPERATOR(/)
#undef INGOT_OPERATOR

typedef vec<float, 2> float2;
typedef vec<float, 4> float4;
typedef vec<half, 2> half2;
typedef vec<half, 4> half4;
typedef vec<uint, 2> uint2;
typedef vec<uint, 4> uint4;
typedef vec<ushort, 2> ushort2;
typedef vec<ushort, 4> ushort4;
typedef vec<uchar, 2> uchar2;
typedef vec<uchar, 4> uchar4;
typedef vec<signed char, 4> char4;
typedef vec<ulong, 2> ulong2;

// A packed vector has the alignment of its elements. A driver may define a faster way to load
// packed vectors that are aligned.
#if !defined(INGOT_LOAD_FOUR)
#define INGOT_LOAD_FOUR(p) {(p)->x, (p)->y, (p)->z, (p)->w}
#endif
template <class T> struct packed_vec4 {
    T x, y, z, w;
    operator vec<T, 4>() const { return INGOT_LOAD_FOUR(this); }
    packed_vec4() = default;
    packed_vec4(vec<T, 4> v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
};
typedef packed_vec4<float> packed_float4;
typedef packed_vec4<half> packed_half4;
typedef packed_vec4<ushort> packed_ushort4;
struct packed_ushort2 {
    ushort x, y;
    operator ushort2() const { return {x, y}; }
};

template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }
template <class T> inline T clamp(T x, T low, T high) { return min(max(x, low), high); }
inline float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };

}  // namespace metal
