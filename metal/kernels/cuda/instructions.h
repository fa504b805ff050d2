// Functions that are single instructions of NVIDIA's GPUs, or a few of them. The emulator has its
// own versions, which run on the CPU (emulator/cuda.h).
#if !defined(INGOT_EMULATOR_CUDA)

__device__ inline float half_float(uint bits) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(ushort(bits)));
    return v;
}

// two_halves rounds two numbers to float16. a is in the low half.
__device__ inline uint two_halves(float a, float b) {
    uint v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(b), "f"(a));
    return v;
}

// add_halves adds two pairs of float16, and scale_halves computes a*by+c.
__device__ inline uint add_halves(uint a, uint b) {
    uint v;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
__device__ inline uint scale_halves(uint a, uint by, uint c) {
    uint v;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(by), "r"(c));
    return v;
}

// less_halves computes a*by-c. both_low and both_high return the low or the high half of v twice,
// which an instruction that computes with it does by itself.
__device__ inline uint less_halves(uint a, uint by, uint c) {
    uint v;
    asm("{.reg .b32 n; neg.f16x2 n, %3; fma.rn.f16x2 %0, %1, %2, n;}" : "=r"(v) : "r"(a), "r"(by), "r"(c));
    return v;
}
__device__ inline uint both_low(uint v) {
    uint to;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l};}" : "=r"(to) : "r"(v));
    return to;
}
__device__ inline uint both_high(uint v) {
    uint to;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h};}" : "=r"(to) : "r"(v));
    return to;
}

// and_or returns v & mask | bits, in one instruction.
__device__ inline uint and_or(uint v, uint mask, uint bits) {
    uint to;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(to) : "r"(v), "r"(mask), "r"(bits));
    return to;
}

// few_registers keeps the compiler from moving reads of memory across it, which would take
// registers.
__device__ inline void few_registers() { asm volatile("" : : : "memory"); }

// computed_once returns p. The compiler does not compute it again where it is used.
__device__ inline const uchar* computed_once(const uchar* p) {
    asm volatile("" : "+l"(p));
    __builtin_assume(__isGlobal(p));
    return p;
}

// multiply_halves adds the product of 16 by 16 and 16 by 8 values of float16 to c. A warp calls it.
__device__ inline void multiply_halves(float* c, uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// read_matrices reads four matrices of 8 by 8 values of float16 from shared memory. A lane passes
// the address of row lane%8 of matrix lane/8. Lane 4r+q receives values 2q and 2q+1 of row r of
// each matrix. read_columns does the same with columns: the lane receives values 2q and 2q+1 of
// column r. A warp calls them.
__device__ inline void read_matrices(uint (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(uint(__cvta_generic_to_shared(row))) : "memory");
}
__device__ inline void read_columns(uint (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(uint(__cvta_generic_to_shared(row))) : "memory");
}

// start_next lets the kernel after this one start. It starts when all threadgroups have called
// start_next or have ended.
__device__ inline void start_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

// wait_for_previous waits for the kernels before this one, and calls start_next unless the kernel
// does that later. Kernels of a graph may start while the kernel before them runs (see
// metal/cuda/graph.go), so every kernel calls wait_for_previous before it reads or writes what
// other kernels write.
__device__ inline void wait_for_previous(bool then_start_next = true) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
    if (then_start_next) start_next();
}

// prefetch reads memory into the L2 cache before it is used. It does not wait.
__device__ inline void prefetch(const void* p, uint bytes, uint thread, uint threads) {
    for (uint at = 128 * thread; at < bytes; at += 128 * threads) asm volatile("prefetch.global.L2 [%0];" : : "l"((const uchar*)p + at));
}

// stage starts to copy data to shared memory. The number of bytes is a multiple of 16. After each
// thread has called staged, and then a barrier, all threads see the copy.
__device__ inline void stage(void* to, const uchar* from, uint bytes, uint thread, uint threads) {
    uint at = uint(__cvta_generic_to_shared(to));
    for (uint i = 16 * thread; i < bytes; i += 16 * threads) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at + i), "l"(from + i) : "memory");
}
__device__ inline void staged() { asm volatile("cp.async.wait_all;" : : : "memory"); }

// copy_early starts to copy 8 or 16 bytes to shared memory. copied ends a group of such copies, and
// wait_but<N> waits for all groups of the thread but the last N.
template <int bytes>
__device__ inline void copy_early(void* to, const uchar* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(uint(__cvta_generic_to_shared(to))), "l"(from), "n"(bytes) : "memory");
}
__device__ inline void copied() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N>
__device__ inline void wait_but() {
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

// Share is what a threadgroup does of something that several threadgroups do together: the parts
// from first to end-1.
struct Share {
    uint first, end;
};

// meet waits until count threadgroups have called it, so that each sees what the others wrote
// before. own is the threadgroup's place among them, and its share. counter is a multiple of count
// before and after. Indices of the threadgroups are contiguous. The GPU starts threadgroups in the
// order of their indices, so the first that wait for others do not keep those from starting.
__device__ inline Share meet(uint* counter, uint own, uint count) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint all = (atomicAdd(counter, 1u) / count + 1) * count;
        while (int(*(volatile uint*)counter - all) < 0) {}
        __threadfence();
    }
    __syncthreads();
    return {own, own + 1};
}

// The functions that follow are for Hopper (warpgroups.h).

// show_to_tensor_cores makes what the thread wrote to shared memory visible to multiply_columns
// after the next barrier. It also waits for the thread's earlier reads of memory.
__device__ inline void show_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

// copy_bulk begins to copy bytes to shared memory, a multiple of 16. A barrier of 8 bytes in shared
// memory counts the bytes that arrive. prepare_arrivals makes such barriers; it comes before a
// barrier of all threads. expect_arrival gives the number of bytes of a phase, of all threads
// together. wait_for_arrival waits until they have arrived. phase is 0 at first, then 1, then 0
// again.
__device__ inline void prepare_arrivals(ulong* barriers, uint count) {
    for (uint i = 0; i < count; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(uint(__cvta_generic_to_shared(barriers + i))) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
__device__ inline void expect_arrival(ulong* barrier, uint bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(uint(__cvta_generic_to_shared(barrier))), "r"(bytes) : "memory");
}
__device__ inline void copy_bulk(void* to, const uchar* from, uint bytes, ulong* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        : : "r"(uint(__cvta_generic_to_shared(to))), "l"(from), "r"(bytes), "r"(uint(__cvta_generic_to_shared(barrier))) : "memory");
}
__device__ inline void wait_for_arrival(ulong* barrier, uint phase) {
    asm volatile("{.reg .pred there; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1; @!there bra AGAIN;}"
        : : "r"(uint(__cvta_generic_to_shared(barrier))), "r"(phase) : "memory");
}

// wait_for_tensor_cores<N> waits for all calls of multiply_columns but the last N.
template <int N>
__device__ inline void wait_for_tensor_cores() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
}

// other_register returns v, in a register that v was not in. zero is 0.
__device__ inline uint other_register(uint v, uint zero) {
    uint to;
    asm volatile("xor.b32 %0, %1, %2;" : "=r"(to) : "r"(v), "r"(zero));
    return to;
}

#define EIGHT(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])

// multiply_sixteen begins to add the products of 64 by 16 values, of which each of four warps has
// 16 by 16 in registers, and 16 by 8T values in shared memory.
template <int T>
__device__ inline void multiply_sixteen(float* c, const uint* a, ulong x) {
    static_assert(T == 8 || T == 16, "there is an instruction for 8T columns here");
    if constexpr (T == 8) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},{%32,%33,%34,%35},%36,1,1,1,0;"
            : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x));
    } else {
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
            "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},{%64,%65,%66,%67},%68,1,1,1,0;"
            : EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x));
    }
}

// multiply_columns begins to add the products of a block of 64 rows of weights and 8T rows of
// activations to c. Four warps call it together; a warp passes its 16 rows of weights in a, as
// add_dots has them. Each 8 rows of activations have 512 bytes in shared memory: 16 bytes of values
// per row, four times. The registers of a and c must not be used before wait_for_tensor_cores.
template <int T>
__device__ inline void multiply_columns(float* c, const uint* a, const void* x) {
    // A matrix descriptor: the address, the distance of matrices of 8 by 8 values along a row, and
    // that of the next 8 rows, each in 16 bytes.
    ulong at = (uint(__cvta_generic_to_shared(x)) & 0x3ffff) >> 4 | 8ul << 16 | 32ul << 32;
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
    multiply_sixteen<T>(c, a, at);
    multiply_sixteen<T>(c, a + 4, at + 16);
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

#endif
