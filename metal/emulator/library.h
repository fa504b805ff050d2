// The part of Metal's language and library that the kernels use, in C++ for the CPU. It follows
// msl.h of package translate. The translation has removed address spaces. It has replaced pointers
// to device and threadgroup memory by types that check accesses if INGOT_DEBUG is defined.

namespace ingot {

#if defined(INGOT_DEBUG)
// checked is a pointer that checks the bounds of its memory and, in threadgroup memory, finds
// races.
template <class T, bool inThreadgroup>
struct checked {
    T* at;
    const char *low, *high;

    checked() = default;
    checked(T* p, const char* l, const char* h) : at(p), low(l), high(h) {}
    template <class U>
    explicit checked(const checked<U, inThreadgroup>& o) : at((T*)o.at), low(o.low), high(o.high) {}
    operator checked<const T, inThreadgroup>() const { return {at, low, high}; }

    template <class I> T& operator[](I i) const { return check(at + (int64_t)i); }
    T& operator*() const { return check(at); }
    T* operator->() const { return &check(at); }
    template <class I> checked operator+(I i) const { return {at + (int64_t)i, low, high}; }
    template <class I> checked operator-(I i) const { return {at - (int64_t)i, low, high}; }
    template <class I> checked& operator+=(I i) { at += (int64_t)i; return *this; }
    checked& operator++() { ++at; return *this; }

    // add adds to the value at once for all threads, so that only accesses of other kinds race with
    // it.
    uint add(uint v) const {
        uint old = check(at).value;
        at->value += v;
        if constexpr (inThreadgroup) {
            Fibre& f = self();
            f.worker->races->settle(f.worker->shared, (const char*)at - low, sizeof(T));
        }
        return old;
    }

private:
    T& check(T* p) const {
        const char* c = (const char*)p;
        if (c < low || c + sizeof(T) > high) faultHere("thread %u uses bytes %ld to %ld of %ld bytes of memory", self().tid, (long)(c - low), (long)(c - low + sizeof(T)), (long)(high - low));
        if ((uintptr_t)c % alignof(T)) faultHere("thread %u uses byte %ld as a value aligned to %u", self().tid, (long)(c - low), (unsigned)alignof(T));
        if constexpr (inThreadgroup) {
            Fibre& f = self();
            f.worker->races->use(f.worker->shared, lane(f), c - low, sizeof(T));
        }
        return *p;
    }
};
template <class T> using device_ptr = checked<T, false>;
template <class T> using threadgroup_ptr = checked<T, true>;

template <class T> device_ptr<T> bind(Fibre& f, uint i) {
    const Binding& b = f.worker->launch->buffers[i];
    return {(T*)b.at, b.low, b.high};
}
template <class T> threadgroup_ptr<T> shared(Fibre& f) {
    return {(T*)f.worker->shared, f.worker->shared, f.worker->shared + f.worker->launch->sharedSize};
}
#else
template <class T> using device_ptr = T*;
template <class T> using threadgroup_ptr = T*;

template <class T> T* bind(Fibre& f, uint i) { return (T*)f.worker->launch->buffers[i].at; }
template <class T> T* shared(Fibre& f) { return (T*)f.worker->shared; }
#endif

inline uint3 groups(Fibre& f) {
    const uint32_t* g = f.worker->launch->groups;
    return {g[0], g[1], g[2]};
}

template <class T> T constant(uint i) { return (T)__builtin_bit_cast(T, self().worker->launch->constants[i]); }
template <> inline bool constant<bool>(uint i) { return self().worker->launch->constants[i] != 0; }

// meet publishes a value to the simdgroup and waits until all lanes of the simdgroup have published
// a value.
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

// computes reports whether the calling lane is the first that continues after meet. It then
// computes the operation for all lanes.
inline bool computes() {
    const Fibre& f = self();
    if (f.simdgroup->computed == f.round) return false;
    f.simdgroup->computed = f.round;
    return true;
}

}  // namespace ingot

#define INFINITY __builtin_inff()
#define INGOT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// kernels/defs.h explains CONSTANT, INSTANTIATE, TABLE and UNROLL.
#define UNROLL
#define TABLE static const
#define CONSTANT(type, name, index) \
    static const struct name##_type { operator type() const { return ingot::constant<type>(index); } } name = {};
#define INSTANTIATE(name, function, ...) \
    static const ingot::Register INGOT_JOIN(ingot_register_, __COUNTER__)(ingot_entry_##function<__VA_ARGS__>(name));

namespace metal {

template <class To, class From> inline To as_type(From v) { return __builtin_bit_cast(To, v); }

inline float exp(float x) { return __builtin_expf(x); }
inline float log(float x) { return __builtin_logf(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float fabs(float x) { return __builtin_fabsf(x); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline float rint(float x) { return __builtin_rintf(x); }
inline float4 fma(float4 a, float4 b, float4 c) { return {fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w)}; }

struct atomic_uint { uint value; };
enum memory_order { memory_order_relaxed };
#if defined(INGOT_DEBUG)
template <class P> inline uint atomic_fetch_add_explicit(P p, uint v, memory_order) { return p.add(v); }
#else
inline uint atomic_fetch_add_explicit(atomic_uint* p, uint v, memory_order) {
    uint old = p->value;
    p->value += v;
    return old;
}
#endif

inline void threadgroup_barrier(mem_flags orders, INGOT_SITE) {
    ingot::Fibre& f = ingot::self();
    ingot::wait(f, ingot::AtBarrier, file, line);
    if (orders == mem_flags::mem_threadgroup) f.barriers++;
}
inline void simdgroup_barrier(mem_flags orders, INGOT_SITE) {
    ingot::Fibre& f = ingot::self();
    ingot::wait(f, ingot::AtSimd, file, line);
    if (orders == mem_flags::mem_threadgroup) f.simdBarriers++;
}

template <class T> inline T simd_shuffle(T v, ushort lane, INGOT_SITE) { return ingot::shown<T>(ingot::meet(v, file, line), lane % ingot::lanes); }
template <class T> inline T simd_broadcast(T v, ushort lane, INGOT_SITE) { return simd_shuffle(v, lane, file, line); }
template <class T> inline T simd_shuffle_xor(T v, ushort mask, INGOT_SITE) { return simd_shuffle(v, ingot::self().lane ^ mask, file, line); }
template <class T> inline T simd_shuffle_down(T v, ushort by, INGOT_SITE) { return simd_shuffle(v, ingot::self().lane + by, file, line); }
template <class T> inline T simd_shuffle_up(T v, ushort by, INGOT_SITE) { return simd_shuffle(v, ingot::self().lane - by, file, line); }

// fold reduces the values of all lanes in a tree. All lanes have the same result.
template <class T, class F> inline T fold(T v, F f, const char* file, int line) {
    char(*slots)[16] = ingot::meet(v, file, line);
    if (ingot::computes()) {
        T all[ingot::lanes];
        for (uint i = 0; i < ingot::lanes; i++) all[i] = ingot::shown<T>(slots, i);
        for (uint n = ingot::lanes / 2; n > 0; n /= 2) {
            for (uint i = 0; i < n; i++) all[i] = f(all[i], all[i + n]);
        }
        __builtin_memcpy(slots[0], all, sizeof(T));
    }
    return ingot::shown<T>(slots, 0);
}
template <class T> inline T simd_sum(T v, INGOT_SITE) { return fold(v, [](T a, T b) { return T(a + b); }, file, line); }
template <class T> inline T simd_max(T v, INGOT_SITE) { return fold(v, [](T a, T b) { return max(a, b); }, file, line); }
template <class T> inline T simd_min(T v, INGOT_SITE) { return fold(v, [](T a, T b) { return min(a, b); }, file, line); }
#if !defined(INGOT_DEBUG)
// tree_sums of kernels/defs.h as one operation. Debug kernels use the version in defs.h. A test
// compares both versions.
#define TREE_SUMS
template <uint n> inline void tree_sums(float* v, INGOT_SITE) {
    const char(*slots)[16] = ingot::meet(v, file, line);
    if (!ingot::computes()) return;
    float* all[ingot::lanes];
    for (uint i = 0; i < ingot::lanes; i++) all[i] = ingot::shown<float*>(slots, i);
    for (uint m = ingot::lanes / 2; m > 0; m /= 2) {
        for (uint i = 0; i < m; i++) {
            float *to = all[i], *from = all[i + m];
#pragma GCC ivdep
            for (uint k = 0; k < n; k++) to[k] += from[k];
        }
    }
    for (uint i = 1; i < ingot::lanes; i++) __builtin_memcpy(all[i], all[0], n * sizeof(float));
}
// strand_sums of kernels/quants.h as one operation.
#define STRAND_SUMS
template <uint n> inline void strand_sums(float* v, uint, INGOT_SITE) {
    const char(*slots)[16] = ingot::meet(v, file, line);
    if (!ingot::computes()) return;
    for (uint first = 0; first < ingot::lanes; first += 8) {
        float* to = ingot::shown<float*>(slots, first);
        for (uint s = 1; s < 8; s++) {
            const float* from = ingot::shown<float*>(slots, first + s);
#pragma GCC ivdep
            for (uint k = 0; k < n; k++) to[k] += from[k];
        }
        for (uint s = 1; s < 8; s++) __builtin_memcpy(ingot::shown<float*>(slots, first + s), to, n * sizeof(float));
    }
}
#endif
inline bool simd_any(bool v, INGOT_SITE) { return fold((uint)v, [](uint a, uint b) { return a | b; }, file, line); }
inline bool simd_all(bool v, INGOT_SITE) { return fold((uint)v, [](uint a, uint b) { return a & b; }, file, line); }
template <class T> inline T simd_prefix_exclusive_sum(T v, INGOT_SITE) {
    const char(*slots)[16] = ingot::meet(v, file, line);
    T sum = T(0);
    for (uint i = 0; i < ingot::self().lane; i++) sum += ingot::shown<T>(slots, i);
    return sum;
}

// An 8 by 8 matrix. Each lane holds two elements, in the same layout as on Apple's GPUs.
template <class T> struct simdgroup_matrix {
    T e[2];
    vec<T, 2>& thread_elements() { return *(vec<T, 2>*)e; }
    static uint row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
    static uint col(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }
};
typedef simdgroup_matrix<float> simdgroup_float8x8;
typedef simdgroup_matrix<half> simdgroup_half8x8;

template <class T, int, int> inline simdgroup_matrix<T> make_filled_simdgroup_matrix(T v) { return {{v, v}}; }

template <class T, class P> inline void simdgroup_load(simdgroup_matrix<T>& m, P from, ulong stride, ulong2 origin = ulong2(0), bool transpose = false) {
    uint lane = ingot::self().lane, r = m.row(lane), c = m.col(lane);
    for (uint i = 0; i < 2; i++) {
        m.e[i] = transpose ? from[(origin.y + c + i) * stride + origin.x + r] : from[(origin.y + r) * stride + origin.x + c + i];
    }
}

template <class T, class P> inline void simdgroup_store(const simdgroup_matrix<T>& m, P to, ulong stride, ulong2 origin = ulong2(0)) {
    uint lane = ingot::self().lane, r = m.row(lane), c = m.col(lane);
    for (uint i = 0; i < 2; i++) to[(origin.y + r) * stride + origin.x + c + i] = m.e[i];
}

}  // namespace metal

namespace ingot {

// multiply adds x·y to sum. GCC vectorises with -O1 only where a function asks for it.
#if !defined(__clang__)
__attribute__((noinline, optimize("tree-vectorize")))
#endif
static void multiply(const float (&x)[8][8], const float (&y)[8][8], float (&__restrict sum)[8][8]) {
    for (uint row = 0; row < 8; row++) {
        for (uint k = 0; k < 8; k++) {
            for (uint col = 0; col < 8; col++) sum[row][col] = __builtin_fmaf(x[row][k], y[k][col], sum[row][col]);
        }
    }
}

}  // namespace ingot

namespace metal {

// simdgroup_multiply_accumulate computes d = a·b + c. Each element is a chain of fused
// multiply-adds in order.
template <class T, class A, class B>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<T>& d, const simdgroup_matrix<A>& a, const simdgroup_matrix<B>& b, const simdgroup_matrix<T>& c, INGOT_SITE) {
    struct Own { float a[2], b[2], sum[2]; } own = {{(float)a.e[0], (float)a.e[1]}, {(float)b.e[0], (float)b.e[1]}, {(float)c.e[0], (float)c.e[1]}};
    char(*slots)[16] = ingot::meet(&own, file, line);
    if (ingot::computes()) {
        float x[8][8], y[8][8], sum[8][8];
        for (uint i = 0; i < ingot::lanes; i++) {
            const Own& o = *ingot::shown<Own*>(slots, i);
            uint row = d.row(i), col = d.col(i);
            for (uint j = 0; j < 2; j++) x[row][col + j] = o.a[j], y[row][col + j] = o.b[j], sum[row][col + j] = o.sum[j];
        }
        ingot::multiply(x, y, sum);
        for (uint i = 0; i < ingot::lanes; i++) {
            __builtin_memcpy(ingot::shown<Own*>(slots, i)->sum, &sum[d.row(i)][d.col(i)], sizeof own.sum);
        }
    }
    d.e[0] = (T)own.sum[0], d.e[1] = (T)own.sum[1];
}

}  // namespace metal
