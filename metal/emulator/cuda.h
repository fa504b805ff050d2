// The part of CUDA C++ that the kernels in kernels/cuda use, for the CPU. Shared variables belong
// to the thread of the worker, which runs one threadgroup at a time. Copies to shared memory that
// are asynchronous on a GPU are complete at once, so a missing wait is not found.

#define __device__
#define __global__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define INGOT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#define threadIdx (uint3{ingot::self().tid, 0, 0})
#define blockIdx (ingot::self().worker->group)
#define blockDim (uint3{ingot::self().worker->launch->threads, 1, 1})
#define gridDim (ingot::grid())

struct alignas(8) uint2 { uint x, y; };
struct alignas(16) uint4 { uint x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(uint x, uint y) { return {x, y}; }
inline uint4 make_uint4(uint x, uint y, uint z, uint w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace ingot {

inline uint3 grid() {
    const uint32_t* g = self().worker->launch->groups;
    return {g[0], g[1], g[2]};
}

// meet publishes a value to the warp and waits until all of its lanes have published a value.
template <class T>
inline char (*meet(const T& v, const char* file, int line))[16] {
    static_assert(sizeof(T) <= 16);
    Fibre& f = self();
    auto* slots = f.simdgroup->slots[f.round++ & 1];
    __builtin_memcpy(slots[f.lane], &v, sizeof v);
    wait(f, AtSimd, file, line);
    return slots;
}

template <class T>
inline T shown(const char (*slots)[16], uint lane) {
    T v;
    __builtin_memcpy(&v, slots[lane], sizeof v);
    return v;
}

inline bool computes() {
    const Fibre& f = self();
    if (f.simdgroup->computed == f.round) return false;
    f.simdgroup->computed = f.round;
    return true;
}

template <class F>
inline uint fold(uint v, F f, const char* file, int line) {
    char(*slots)[16] = meet(v, file, line);
    uint all = shown<uint>(slots, 0);
    for (uint i = 1; i < lanes; i++) all = f(all, shown<uint>(slots, i));
    return all;
}

// entry_of describes a kernel. Its parameters are buffers and, last, an argument struct.
template <class T> struct argument {
    enum { buffers = 0, bytes = sizeof(T) };
    static const T& get(Fibre& f, uint) { return *(const T*)f.worker->launch->args; }
};
template <class T> struct argument<T*> {
    enum { buffers = 1, bytes = 0 };
    static T* get(Fibre& f, uint i) { return (T*)f.worker->launch->buffers[i].at; }
};
template <uint... I> struct indices {};
template <uint n, uint... I> struct count_up : count_up<n - 1, n - 1, I...> {};
template <uint... I> struct count_up<0, I...> { typedef indices<I...> list; };

template <auto F> struct kernel;
template <class... P, void (*F)(P...)>
struct kernel<F> {
    template <uint... I>
    static void pass(Fibre& f, indices<I...>) { F(argument<P>::get(f, I)...); }
    static void call(Fibre& f) { pass(f, typename count_up<sizeof...(P)>::list()); }
    static Entry entry(const char* name) { return {name, call, (0u + ... + argument<P>::buffers), (0u + ... + argument<P>::bytes), 2}; }
};

inline void* dynamic() { return self().worker->shared; }

}  // namespace ingot

#define INGOT_KERNEL(name) static const ingot::Register ingot_register_##name(ingot::kernel<&ingot_##name>::entry(#name));

template <class A, class B> inline auto min(A a, B b) { return b < a ? decltype(a + b)(b) : decltype(a + b)(a); }
template <class A, class B> inline auto max(A a, B b) { return a < b ? decltype(a + b)(b) : decltype(a + b)(a); }
inline float expf(float x) { return __builtin_expf(x); }
inline float logf(float x) { return __builtin_logf(x); }
inline float tanhf(float x) { return __builtin_tanhf(x); }
inline float sqrtf(float x) { return __builtin_sqrtf(x); }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
inline float rintf(float x) { return __builtin_rintf(x); }
inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
inline uint __float_as_uint(float v) { return __builtin_bit_cast(uint, v); }
inline float __uint_as_float(uint v) { return __builtin_bit_cast(float, v); }
inline float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
inline uint __popc(uint v) { return __builtin_popcount(v); }
template <class T> inline T __ldcg(const T* p) { return *p; }

inline uint __byte_perm(uint x, uint y, uint s) {
    ulong all = (ulong)y << 32 | x;
    uint v = 0;
    for (uint i = 0; i < 4; i++) v |= (uint)(all >> (8 * (s >> (4 * i) & 7)) & 255) << (8 * i);
    return v;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline uint atomicAdd(uint* p, uint v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline uint atomicInc(uint* p, uint limit) {
    uint old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, old >= limit ? 0 : old + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {}
    return old;
}

inline void __syncthreads(INGOT_SITE) { ingot::wait(ingot::self(), ingot::AtBarrier, file, line); }
inline void __syncwarp(INGOT_SITE) { ingot::wait(ingot::self(), ingot::AtSimd, file, line); }

template <class T> inline T __shfl_sync(uint, T v, uint lane, INGOT_SITE) { return ingot::shown<T>(ingot::meet(v, file, line), lane % ingot::lanes); }
template <class T> inline T __shfl_xor_sync(uint, T v, uint mask, INGOT_SITE) { return ingot::shown<T>(ingot::meet(v, file, line), ingot::self().lane ^ mask); }
template <class T> inline T __shfl_up_sync(uint, T v, uint by, INGOT_SITE) {
    uint lane = ingot::self().lane;
    return ingot::shown<T>(ingot::meet(v, file, line), lane < by ? lane : lane - by);
}
template <class T> inline T __shfl_down_sync(uint, T v, uint by, INGOT_SITE) {
    uint lane = ingot::self().lane;
    return ingot::shown<T>(ingot::meet(v, file, line), lane + by < ingot::lanes ? lane + by : lane);
}
inline uint __reduce_add_sync(uint, uint v, INGOT_SITE) { return ingot::fold(v, [](uint a, uint b) { return a + b; }, file, line); }
inline uint __reduce_max_sync(uint, uint v, INGOT_SITE) { return ingot::fold(v, [](uint a, uint b) { return a > b ? a : b; }, file, line); }
inline uint __reduce_min_sync(uint, uint v, INGOT_SITE) { return ingot::fold(v, [](uint a, uint b) { return a < b ? a : b; }, file, line); }
inline uint __ballot_sync(uint, bool v, INGOT_SITE) {
    return ingot::fold(v ? 1u << ingot::self().lane : 0, [](uint a, uint b) { return a | b; }, file, line);
}

// The functions of instructions.h.

inline float half_float(uint bits) { return (float)__builtin_bit_cast(_Float16, (ushort)bits); }
inline uint half_bits(float v) { return __builtin_bit_cast(ushort, (_Float16)v); }
inline uint two_halves(float a, float b) { return half_bits(a) | half_bits(b) << 16; }
inline uint add_halves(uint a, uint b) { return two_halves(half_float(a) + half_float(b), half_float(a >> 16) + half_float(b >> 16)); }
inline uint scale_halves(uint a, uint by, uint c) {
    return two_halves(fmaf(half_float(a), half_float(by), half_float(c)), fmaf(half_float(a >> 16), half_float(by >> 16), half_float(c >> 16)));
}
inline uint less_halves(uint a, uint by, uint c) { return scale_halves(a, by, c ^ 0x80008000); }
inline uint both_low(uint v) { return (v & 0xffff) * 0x10001; }
inline uint both_high(uint v) { return (v >> 16) * 0x10001; }
inline uint and_or(uint v, uint mask, uint bits) { return (v & mask) | bits; }
inline void few_registers() {}
inline const uchar* computed_once(const uchar* p) { return p; }
inline float bfloat(uint bits) { return __uint_as_float(bits << 16); }

struct OwnTiles {
    uint a[4], b[2];
    float* c;
};

// multiply adds a·b to sums. GCC vectorises with -O1 only where a function asks for it.
#if !defined(__clang__)
__attribute__((noinline, optimize("tree-vectorize")))
#endif
static void multiply(const float (&a)[16][16], const float (&b)[16][8], float (&__restrict sums)[16][8]) {
    for (uint row = 0; row < 16; row++) {
        for (uint k = 0; k < 16; k++) {
            for (uint col = 0; col < 8; col++) sums[row][col] = __builtin_fmaf(a[row][k], b[k][col], sums[row][col]);
        }
    }
}

// multiply_tiles computes a product of 16 by 16 and 16 by 8 values for the whole warp. value
// converts 16 bits.
template <float (*value)(uint)>
inline void multiply_tiles(float* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, const char* file, int line) {
    OwnTiles own = {{a0, a1, a2, a3}, {b0, b1}, c};
    char(*slots)[16] = ingot::meet(&own, file, line);
    if (ingot::computes()) {
        float a[16][16], b[16][8], sums[16][8];
        for (uint lane = 0; lane < ingot::lanes; lane++) {
            const OwnTiles& o = *ingot::shown<OwnTiles*>(slots, lane);
            uint row = lane / 4, k = lane % 4 * 2;
            for (uint i = 0; i < 4; i++) {
                a[row + i % 2 * 8][k + i / 2 * 8] = value(o.a[i] & 0xffff), a[row + i % 2 * 8][k + i / 2 * 8 + 1] = value(o.a[i] >> 16);
                sums[row + i / 2 * 8][k + i % 2] = o.c[i];
            }
            for (uint i = 0; i < 2; i++) b[k + 8 * i][row] = value(o.b[i] & 0xffff), b[k + 8 * i + 1][row] = value(o.b[i] >> 16);
        }
        multiply(a, b, sums);
        for (uint lane = 0; lane < ingot::lanes; lane++) {
            float* to = ingot::shown<OwnTiles*>(slots, lane)->c;
            for (uint i = 0; i < 4; i++) to[i] = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
        }
    }
    // The lanes' arrays must live until the first lane has written to all of them.
    asm volatile("" : : "r"(&own) : "memory");
}
inline void multiply_halves(float* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, INGOT_SITE) {
    multiply_tiles<half_float>(c, a0, a1, a2, a3, b0, b1, file, line);
}
inline void multiply_bfloats(float* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1, INGOT_SITE) {
    multiply_tiles<bfloat>(c, a0, a1, a2, a3, b0, b1, file, line);
}

inline void read_matrices(uint (&to)[4], const void* row, INGOT_SITE) {
    char(*slots)[16] = ingot::meet(row, file, line);
    uint lane = ingot::self().lane;
    for (uint i = 0; i < 4; i++) __builtin_memcpy(to + i, ingot::shown<const uint*>(slots, 8 * i + lane / 4) + lane % 4, 4);
}
inline void read_columns(uint (&to)[4], const void* row, INGOT_SITE) {
    char(*slots)[16] = ingot::meet(row, file, line);
    uint lane = ingot::self().lane, q = lane % 4;
    for (uint i = 0; i < 4; i++) {
        const ushort* rows[2] = {ingot::shown<const ushort*>(slots, 8 * i + 2 * q), ingot::shown<const ushort*>(slots, 8 * i + 2 * q + 1)};
        to[i] = rows[0][lane / 4] | uint(rows[1][lane / 4]) << 16;
    }
}

inline void start_next() {}
inline void wait_for_previous(bool = true) {}
inline void prefetch(const void*, uint, uint, uint) {}
inline void stage(void* to, const uchar* from, uint bytes, uint thread, uint threads) {
    for (uint i = 16 * thread; i < bytes; i += 16 * threads) __builtin_memcpy((uchar*)to + i, from + i, 16);
}
inline void staged() {}
template <int bytes> inline void copy_early(void* to, const uchar* from) { __builtin_memcpy(to, from, bytes); }
inline void copied() {}
template <int N> inline void wait_but() {}

// Bulk copies are complete at once. A barrier of all threads stands for the wait, since the threads
// copy for each other.
inline void prepare_arrivals(ulong*, uint) {}
inline void expect_arrival(ulong*, uint) {}
inline void copy_bulk(void* to, const uchar* from, uint bytes, ulong*) { __builtin_memcpy(to, from, bytes); }
inline void wait_for_arrival(ulong*, uint, INGOT_SITE) { ingot::wait(ingot::self(), ingot::AtBarrier, file, line); }

inline void show_to_tensor_cores() {}
inline uint other_register(uint v, uint) { return v; }
template <int N> inline void wait_for_tensor_cores() {}

struct Share { uint first, end; };

// A worker runs one threadgroup at a time, so none can wait for others. The last one does all.
inline Share meet(uint* counter, uint, uint count, INGOT_SITE) {
    static thread_local bool last;
    __threadfence();
    ingot::wait(ingot::self(), ingot::AtBarrier, file, line);
    if (ingot::self().tid == 0) last = atomicInc(counter, count - 1) == count - 1;
    ingot::wait(ingot::self(), ingot::AtBarrier, file, line);
    return last ? Share{0, count} : Share{0, 0};
}

// multiply_columns computes at once, so its registers may be used before wait_for_tensor_cores.
template <int T>
inline void multiply_columns(float* c, const uint* a, const void* x, INGOT_SITE) {
    for (uint t = 0; t < T; t++) {
        const uint* words = (const uint*)x + 128 * t + threadIdx.x % 32;
        multiply_tiles<half_float>(c + 4 * t, a[0], a[1], a[2], a[3], words[0], words[32], file, line);
        multiply_tiles<half_float>(c + 4 * t, a[4], a[5], a[6], a[7], words[64], words[96], file, line);
    }
}
