// The part of Metal's library that needs NVIDIA's own functions. It follows msl.h of package
// translate. A simdgroup is a warp. All of its lanes take part in simdgroup operations, so kernels
// may return early only for whole simdgroups.

namespace metal {

template <class To, class From> inline To as_type(From v) { return reinterpret_cast<const To&>(v); }

// masked_or returns bits & mask | high. NVRTC makes two instructions of the expression.
inline uint masked_or(uint bits, uint mask, uint high) {
    uint v;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(v) : "r"(bits), "r"(mask), "r"(high));
    return v;
}
#define MASKED_OR(bits, mask, high) masked_or(bits, mask, high)

inline float exp(float x) { return ::expf(x); }
inline float log(float x) { return ::logf(x); }
inline float sqrt(float x) { return ::sqrtf(x); }
inline float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
inline float fabs(float x) { return ::fabsf(x); }
inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float rint(float x) { return ::rintf(x); }

inline void threadgroup_barrier(mem_flags) { __syncthreads(); }
inline void simdgroup_barrier(mem_flags) { __syncwarp(); }

struct atomic_uint { uint value; };
enum memory_order { memory_order_relaxed };
inline uint atomic_fetch_add_explicit(atomic_uint* p, uint v, memory_order) { return atomicAdd(&p->value, v); }

template <class T> inline T simd_shuffle(T v, ushort lane) { return __shfl_sync(~0u, v, lane); }
template <class T> inline T simd_broadcast(T v, ushort lane) { return __shfl_sync(~0u, v, lane); }
template <class T> inline T simd_shuffle_xor(T v, ushort mask) { return __shfl_xor_sync(~0u, v, mask); }
template <class T> inline T simd_shuffle_down(T v, ushort by) { return __shfl_down_sync(~0u, v, by); }
template <class T> inline T simd_shuffle_up(T v, ushort by) { return __shfl_up_sync(~0u, v, by); }

// The trees of simd_max, simd_min and simd_sum have the order of tree_sums in kernels/defs.h.
template <class T> inline T simd_max(T v) {
    UNROLL for (uint m = 16; m > 0; m /= 2) v = max(v, simd_shuffle_xor(v, m));
    return v;
}
template <class T> inline T simd_min(T v) {
    UNROLL for (uint m = 16; m > 0; m /= 2) v = min(v, simd_shuffle_xor(v, m));
    return v;
}
template <class T> inline T simd_sum(T v) {
    UNROLL for (uint m = 16; m > 0; m /= 2) v += simd_shuffle_xor(v, m);
    return v;
}
#if __CUDA_ARCH__ >= 800
inline uint simd_max(uint v) { return __reduce_max_sync(~0u, v); }
inline uint simd_min(uint v) { return __reduce_min_sync(~0u, v); }
inline uint simd_sum(uint v) { return __reduce_add_sync(~0u, v); }
#endif

template <class T> inline T simd_prefix_exclusive_sum(T v) {
    uint lane = threadIdx.x % 32;
    T sum = v;
    UNROLL for (uint m = 1; m < 32; m *= 2) {
        T before = simd_shuffle_up(sum, m);
        if (lane >= m) sum += before;
    }
    return sum - v;
}

// An 8 by 8 matrix. Each lane holds two elements, in the same layout as on Apple's GPUs.
// simdgroup_load only records where the matrix is in threadgroup memory, and the multiplication
// reads it there. Kernels do both between the same two barriers, so the matrix does not change
// meanwhile.
template <class T> struct simdgroup_matrix {
    alignas(2 * sizeof(T)) T e[2];
    const T* at;
    uint row_step, col_step;
    vec<T, 2>& thread_elements() { return *(vec<T, 2>*)e; }
    static uint row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
    static uint col(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }
};
typedef simdgroup_matrix<float> simdgroup_float8x8;

template <class T, int, int> inline simdgroup_matrix<T> make_filled_simdgroup_matrix(T v) { return {{v, v}, nullptr, 0, 0}; }

template <class T> inline void simdgroup_load(simdgroup_matrix<T>& m, const T* from, ulong stride, ulong2 origin = ulong2(0), bool transpose = false) {
    m.at = from + origin.y * stride + origin.x;
    m.row_step = transpose ? 1 : uint(stride);
    m.col_step = transpose ? uint(stride) : 1;
}

template <class T> inline void simdgroup_store(const simdgroup_matrix<T>& m, T* to, ulong stride) {
    uint lane = threadIdx.x % 32, r = m.row(lane), c = m.col(lane);
    UNROLL for (uint i = 0; i < 2; i++) to[r * stride + c + i] = m.e[i];
}

// load_line reads the eight elements of a line of a matrix, which are next to each other in
// threadgroup memory at a multiple of 16 bytes.
inline void load_line(const float* from, float* v) {
    UNROLL for (uint i = 0; i < 8; i += 4) {
        float4 four = *(const float4*)(from + i);
        UNROLL for (uint j = 0; j < 4; j++) v[i + j] = four[j];
    }
}

// simdgroup_multiply_accumulate computes d = a·b + c. Each element is a chain of fused
// multiply-adds in order. The rows of a, and the rows of b or, if b was transposed, its columns,
// are lines.
inline void simdgroup_multiply_accumulate(simdgroup_float8x8& d, const simdgroup_float8x8& a, const simdgroup_float8x8& b, const simdgroup_float8x8& c) {
    uint lane = threadIdx.x % 32, col = a.col(lane);
    float sum0 = c.e[0], sum1 = c.e[1], x[8];
    load_line(a.at + a.row(lane) * a.row_step, x);
    if (b.row_step == 1) {
        float y0[8], y1[8];
        load_line(b.at + col * b.col_step, y0);
        load_line(b.at + (col + 1) * b.col_step, y1);
        UNROLL for (uint k = 0; k < 8; k++) {
            sum0 = fma(x[k], y0[k], sum0);
            sum1 = fma(x[k], y1[k], sum1);
        }
    } else {
        UNROLL for (uint k = 0; k < 8; k++) {
            float2 y = *(const float2*)(b.at + k * b.row_step + col);
            sum0 = fma(x[k], y.x, sum0);
            sum1 = fma(x[k], y.y, sum1);
        }
    }
    d.e[0] = sum0;
    d.e[1] = sum1;
}

// Blocks of kernels/blocks.h. A core reads one even and one odd register per cycle, and none for an
// operand that the product before had, too. So a lane multiplies a row's value with all of its
// columns, one after another, and the sums of even columns should be in odd registers. Four values
// that are read at once are in registers next to each other: reading four columns of b leaves the
// compiler that choice, reading four values of a column does not.
#define MATRIX_BLOCKS
template <uint I, uint J> inline uint block_row(uint i, uint j, uint lane) { return 8 * i + simdgroup_float8x8::row(lane); }
template <uint I, uint J> inline uint block_column(uint j, uint lane) { return 8 * j + (lane / 4 & 2) * 4 + lane % 2 * 4 - 6 * (j % 2); }

template <uint N, uint I, uint J>
inline void multiply_block(simdgroup_float8x8 (&sums)[I][J], const float* a, uint a_stride, const float* b, uint b_stride) {
    constexpr uint columns = 2 * J;  // of a lane, which has a row of each matrix
    uint lane = threadIdx.x % 32;
    a += block_row<I, J>(0, 0, lane) * a_stride;
    b += block_column<I, J>(0, lane);
    UNROLL for (uint k4 = 0; k4 < N; k4 += 4) {
        float4 x[I];
        UNROLL for (uint i = 0; i < I; i++) x[i] = *(const float4*)(a + 8 * i * a_stride + k4);
        UNROLL for (uint k = 0; k < 4; k++) {
            float4 y[columns / 4];
            UNROLL for (uint j = 0; j < columns / 4; j++) y[j] = *(const float4*)(b + 16 * j + (k4 + k) * b_stride);
            UNROLL for (uint n = 0; n < I * columns; n++) {
                uint i = n / columns, column = i % 2 == 0 ? n % columns : columns - 1 - n % columns;
                float& sum = sums[i][column / 2].e[column % 2];
                sum = fma(x[i][k], y[column / 4][column % 4], sum);
            }
        }
    }
}

// Across is how lanes share a block whose rows and columns are both read across the sum. A lane has
// rows and columns in fours, or two rows if there are only two.
template <uint I, uint J> struct Across {
    enum {
        column_lanes = J == 8 ? 8 : 4,  // lanes with different columns
        row_lanes = 32 / column_lanes,
        columns = 8 * J / column_lanes,  // of a lane
        rows = 8 * I / row_lanes,
        once = rows < 4 ? rows : 4,  // rows that are next to each other
        of_matrix = rows / I         // rows that the lane's elements of a row of matrices belong to
    };
};
template <uint I, uint J> inline uint across_row(uint i, uint j, uint lane) {
    typedef Across<I, J> A;
    uint row = A::of_matrix * i + j / (J / A::of_matrix);
    return row / A::once * A::once * A::row_lanes + lane / A::column_lanes * A::once + row % A::once;
}
template <uint I, uint J> inline uint across_column(uint j, uint lane) {
    typedef Across<I, J> A;
    uint two = j % (J / A::of_matrix);
    return two / 2 * 4 * A::column_lanes + lane % A::column_lanes * 4 + two % 2 * 2;
}

template <uint N, uint C, uint I, uint J>
inline void multiply_across(simdgroup_float8x8 (&sums)[I][J], const float* a, uint a_stride, const float* b, uint b_stride, uint b_step) {
    typedef Across<I, J> A;
    constexpr uint columns = A::columns * C / J;
    uint lane = threadIdx.x % 32;
    a += lane / A::column_lanes * A::once;
    b += lane % A::column_lanes * 4;
    UNROLL for (uint k = 0; k < N; k++) {
        float x[A::rows];
        float4 y[columns / 4];
        UNROLL for (uint i = 0; i < A::rows; i += A::once) {
            typedef vec<float, A::once> Some;
            Some some = *(const Some*)(a + k * a_stride + i * A::row_lanes);
            UNROLL for (uint j = 0; j < A::once; j++) x[i + j] = some[j];
        }
        UNROLL for (uint j = 0; j < columns / 4; j++) y[j] = *(const float4*)(b + k * b_stride + j * A::column_lanes / 4 * b_step);
        UNROLL for (uint n = 0; n < A::rows * columns; n++) {
            uint i = n / columns, column = i % 2 == 0 ? n % columns : columns - 1 - n % columns;
            float& sum = sums[i / A::of_matrix][i % A::of_matrix * (J / A::of_matrix) + column / 2].e[column % 2];
            sum = fma(x[i], y[column / 4][column % 4], sum);
        }
    }
}

// Aside is in memory, since registers limit how many threadgroups run on a core. The compiler keeps
// the sums in registers in the order in which they are written: even columns in odd ones.
template <uint I, uint J>
struct Aside {
    alignas(16) float kept[2 * I * J];
    ulong at() {
        ulong p;
        asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(p) : "l"(kept));
        return p;
    }
    void set(simdgroup_float8x8 (&sums)[I][J]) {
        ulong p = at();
        UNROLL for (uint i = 0; i < I * J; i += 2) {
            float *f = sums[i / J][i % J].e, *g = sums[i / J][i % J + 1].e;
            asm volatile("st.local.v4.f32 [%0], {%1, %2, %3, %4};" : : "l"(p + 8 * i), "f"(f[1]), "f"(f[0]), "f"(g[1]), "f"(g[0]) : "memory");
        }
    }
    void get(simdgroup_float8x8 (&sums)[I][J]) {
        ulong p = at();
        UNROLL for (uint i = 0; i < I * J; i += 2) {
            float *f = sums[i / J][i % J].e, *g = sums[i / J][i % J + 1].e;
            asm volatile("ld.local.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(f[1]), "=f"(f[0]), "=f"(g[1]), "=f"(g[0]) : "l"(p + 8 * i) : "memory");
        }
    }
    void add_to(simdgroup_float8x8 (&sums)[I][J]) {
        simdgroup_float8x8 before[I][J];
        get(before);
        UNROLL for (uint i = 0; i < 2 * I * J; i++) sums[i / 2 / J][i / 2 % J].e[i % 2] += before[i / 2 / J][i / 2 % J].e[i % 2];
    }
};

}  // namespace metal

// kernels/defs.h explains CONSTANT and INSTANTIATE. Each set of function constants is compiled
// separately, with the macros INGOT_CONSTANT_0 and so on. An instance is a kernel whose symbol
// consists of the names of its template and arguments. The name that INSTANTIATE gives to it need
// not be an identifier and is stored as data. source.go defines the macro INGOT_PARAMETERS_function
// for each kernel. If a source has function constants, its kernels that are not templates are
// compiled once, without constants, since they do not use them.
#if defined(INGOT_NO_CONSTANTS)
#define CONSTANT(type, name, index) constexpr type name = 0;
#define INSTANTIATE(name, function, ...)
#else
#define CONSTANT(type, name, index) constexpr type name = INGOT_CONSTANT_##index;
#define INSTANTIATE(name, function, ...) INGOT_COUNTED(__VA_ARGS__, 3, 2, 1)(name, function, __VA_ARGS__)
#endif
#define INGOT_COUNTED(a, b, c, n, ...) INGOT_JOIN(INGOT_INSTANCE_, n)
#define INGOT_INSTANCE_1(name, function, a) INGOT_KERNEL(function##_##a, name, function, function<a>)
#define INGOT_INSTANCE_2(name, function, a, b) INGOT_KERNEL(function##_##a##_##b, name, function, function<a, b>)
#define INGOT_INSTANCE_3(name, function, a, b, c) INGOT_KERNEL(function##_##a##_##b##_##c, name, function, function<a, b, c>)
#define INGOT_KERNEL(id, name, function, ...)                                                      \
    extern "C" __device__ const char ingot_name_##id[] = name;                                     \
    extern "C" __global__ INGOT_BOUNDS_##function void ingot_##id(INGOT_PARAMETERS_##function) {   \
        ingot_wait();                                                                              \
        __VA_ARGS__(INGOT_PASS_##function);                                                        \
    }
extern __shared__ float4 ingot_shared[];

namespace metal {
