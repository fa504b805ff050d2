// Declarations of integers and half, which come before msl.h of package translate. They need no
// headers, since NVRTC has none on systems where only the driver is installed.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed int int32_t;

#define INFINITY __int_as_float(0x7f800000)
#define UNROLL _Pragma("unroll")
#define TABLE static __device__ const

// ingot_wait lets the next kernel start and waits until the kernels before this one have ended. A
// kernel of a graph may start while the kernel before it is running (see metal/cuda/graph.go), so
// every kernel calls ingot_wait before it reads or writes memory that other kernels write.
inline void ingot_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" : : : "memory");
#endif
}

namespace metal {

// half is a 16-bit float in memory. Arithmetic on it is done in float.
struct half {
    ushort bits;
    half() = default;
    explicit half(float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v)); }
    explicit operator float() const {
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
        return v;
    }
};

// load_four loads a packed vector with one instruction if its address is a multiple of its size.
template <class V, class P> inline V load_four(const P* p) {
    if ((ulong)p % sizeof(P) == 0) return *(const V*)p;
    return {p->x, p->y, p->z, p->w};
}
#define INGOT_LOAD_FOUR(p) load_four<vec<T, 4>>(p)

}  // namespace metal

namespace ingot {

template <class T> using device_ptr = T*;
template <class T> using threadgroup_ptr = T*;

}  // namespace ingot
