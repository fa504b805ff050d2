// Declarations with which clang checks the kernels. Address spaces are part of a pointer's type, so using a pointer for another kind of memory is
// an error, as with Apple's compiler. The code is not run. Functions in place of GPU instructions are declared but not defined, so that the
// optimiser does not remove their calls.
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2))) const
#define threadgroup __attribute__((address_space(3)))
#define thread
#define kernel
#define TABLE constant
#define INFINITY __builtin_inff()
#define CONSTANT(type, name, index) extern constant type name;
#define UNROLL _Pragma("clang loop unroll(full)")
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define INSTANTIATE(name, function, ...) auto* JOIN(instance_, __COUNTER__) = &function<__VA_ARGS__>;

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
struct uint3 { uint x, y, z; };

namespace metal {
typedef float packed_float4 __attribute__((ext_vector_type(4), aligned(4)));
typedef half packed_half4 __attribute__((ext_vector_type(4), aligned(2)));
typedef ushort packed_ushort4 __attribute__((ext_vector_type(4), aligned(2)));
typedef ushort packed_ushort2 __attribute__((ext_vector_type(2), aligned(2)));
typedef ushort ushort4 __attribute__((ext_vector_type(4)));
typedef uint uint4 __attribute__((ext_vector_type(4)));
typedef ushort ushort2 __attribute__((ext_vector_type(2)));
struct uint2 {
    uint x, y;
    uint2() = default;
    uint2(uint v) : x(v), y(v) {}
    uint2(uint a, uint b) : x(a), y(b) {}
    uint2(const uint2&) = default;
    uint2& operator=(const uint2&) = default;
    uint2(device const uint2& v) : x(v.x), y(v.y) {}
    uint operator[](uint i) const { return i == 0 ? x : y; }
};
struct float2 {
    float x, y;
    float2(float a, float b) : x(a), y(b) {}
};
struct half4 {
    half x, y, z, w;
    half4(device const half4& v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
    half4(const half4&) = default;
    explicit half4(packed_half4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
};
struct float4 {
    float x, y, z, w;
    float4(float a, float b, float c, float d) : x(a), y(b), z(c), w(d) {}
    float4() = default;
    float4(const float4&) = default;
    float4& operator=(const float4&) = default;
    float4(threadgroup const float4& v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
    float4(device const float4& v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
    explicit float4(packed_float4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
    explicit float4(half4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
};
// kernels/defs.h has the function for compilers whose vectors can be assigned in threadgroup memory.
#define STORE_FOUR
inline void store_four(threadgroup float* to, float a, float b, float c, float d) { to[0] = a, to[1] = b, to[2] = c, to[3] = d; }
struct ulong2 {
    ulong x, y;
    ulong2(ulong a, ulong b) : x(a), y(b) {}
};
template <class To, class From> To as_type(From v) { return __builtin_bit_cast(To, v); }
float exp(float);
float log(float);
float fabs(float);
float rsqrt(float);
float rint(float);
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
template <class T> T clamp(T v, T low, T high) { return min(max(v, low), high); }
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
struct atomic_uint { uint value; };
enum memory_order { memory_order_relaxed };
uint atomic_fetch_add_explicit(threadgroup atomic_uint*, uint, memory_order);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
template <class T> T simd_sum(T);
template <class T> T simd_max(T);
template <class T> T simd_min(T);
template <class T> T simd_broadcast(T, ushort);
template <class T> T simd_shuffle(T, ushort);
template <class T> T simd_shuffle_xor(T, ushort);
template <class T> T simd_prefix_exclusive_sum(T);

struct pair { float a, b; };
pair load_pair(threadgroup const float*, ulong, bool);
pair load_pair(device const float*, ulong, bool);
void store_pair(pair, threadgroup float*, ulong);
pair multiply_pairs(pair, pair, pair);
struct simdgroup_float8x8 {
    float e[2];
    float (&thread_elements())[2] { return e; }
};
template <class T, int, int> simdgroup_float8x8 make_filled_simdgroup_matrix(T v) { return {{v, v}}; }
template <class P> void simdgroup_load(thread simdgroup_float8x8& d, P p, ulong stride, ulong2 = ulong2(0, 0), bool transpose = false) {
    pair v = load_pair(p, stride, transpose);
    d = {{v.a, v.b}};
}
inline void simdgroup_store(simdgroup_float8x8 v, threadgroup float* p, ulong stride) { store_pair({v.e[0], v.e[1]}, p, stride); }
inline void simdgroup_multiply_accumulate(thread simdgroup_float8x8& d, simdgroup_float8x8 a, simdgroup_float8x8 b, simdgroup_float8x8 c) {
    pair v = multiply_pairs({a.e[0], a.e[1]}, {b.e[0], b.e[1]}, {c.e[0], c.e[1]});
    d = {{v.a, v.b}};
}
}  // namespace metal
