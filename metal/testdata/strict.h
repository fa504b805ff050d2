// Declarations for a syntax check of the kernels by clang, where address spaces are part of a pointer's type: memory that is
// taken for another kind is an error, as it is for Apple's compiler. Nothing here is run.
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2))) const
#define threadgroup __attribute__((address_space(3)))
#define thread
#define kernel
#define INFINITY __builtin_inff()
#define CONSTANT(type, name, index) constant type name = type(1);
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
typedef float packed_float4 __attribute__((ext_vector_type(4)));
struct float2 { float x, y; float2(float, float); };
struct float4 { float x, y, z, w; float4(float, float, float, float); float4(packed_float4); };
struct ulong2 { ulong2(ulong, ulong); };
template <class To, class From> To as_type(From);
float exp(float);
float log(float);
float fabs(float);
float rsqrt(float);
float rint(float);
float fma(float, float, float);
template <class T> T min(T, T);
template <class T> T max(T, T);
template <class T> T clamp(T, T, T);
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
template <class T> T simd_sum(T);
template <class T> T simd_max(T);
template <class T> T simd_min(T);
template <class T> T simd_broadcast(T, ushort);
template <class T> T simd_shuffle_xor(T, ushort);
template <class T> T simd_prefix_exclusive_sum(T);
struct simdgroup_float8x8 { float (&thread_elements())[2]; };
template <class T, int, int> simdgroup_float8x8 make_filled_simdgroup_matrix(T);
void simdgroup_load(thread simdgroup_float8x8&, threadgroup const float*, ulong, ulong2 = ulong2(0, 0), bool = false);
void simdgroup_load(thread simdgroup_float8x8&, device const float*, ulong, ulong2 = ulong2(0, 0), bool = false);
void simdgroup_store(simdgroup_float8x8, threadgroup float*, ulong, ulong2 = ulong2(0, 0));
void simdgroup_multiply_accumulate(thread simdgroup_float8x8&, simdgroup_float8x8, simdgroup_float8x8, simdgroup_float8x8);
}  // namespace metal
