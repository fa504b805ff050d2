// Kernels with one mistake each, and correct versions for comparison. They run in threadgroups of 64 threads.
using namespace metal;

struct Args {
    uint n;
};

kernel void past_the_end(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (group.x == 1 && tid == 3) x[args.n] = 1;
}

kernel void before_the_start(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (tid == 3) x[-1] = 1;
}

kernel void past_shared(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    shared[tid + 1] = 1;
}

kernel void misaligned(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (tid == 5) x[0] = *(device float*)((device uchar*)x + 2);
}

kernel void barrier_for_some(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (simdgroup == 0) threadgroup_barrier(mem_flags::mem_threadgroup);
}

kernel void two_barriers(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (simdgroup == 0) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
    } else {
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

kernel void diverging_lanes(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (lane < 5) {
        x[tid] = simd_sum(x[tid]);
    } else {
        x[tid] = simd_max(x[tid]);
    }
}

kernel void returned_lanes(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (lane == 5) return;
    x[tid] = simd_sum(x[tid]);
}

kernel void unwritten(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x[group.x * 64 + tid] = shared[tid];
}

// reverse reverses the order of each threadgroup's values.
kernel void reverse(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    shared[tid] = x[tid];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[tid] = shared[63 - tid];
}

kernel void reverse_without_barrier(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    shared[tid] = x[tid];
    x[tid] = shared[63 - tid];
}

// pass_on_without_barrier is correct only if the threads of simdgroup 0 run first, one after another, and then those of simdgroup 1.
kernel void pass_on_without_barrier(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    float v = x[tid];
    if (simdgroup == 0) shared[tid] = v;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup == 1) {
        x[63 - tid] = v;
        x[tid] = shared[63 - tid];
    }
}

// neighbour_after_shuffle is correct only if a shuffle orders memory, as it does in the emulator but not on a GPU.
kernel void neighbour_after_shuffle(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    shared[tid] = x[tid] + 1;
    float sum = simd_sum(x[tid]);
    x[tid] = sum + shared[simdgroup * 32 + (lane + 31) % 32];
}

// neighbour_after_device_barrier has a barrier for device memory instead of threadgroup memory.
kernel void neighbour_after_device_barrier(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    shared[tid] = x[tid] + 1;
    threadgroup_barrier(mem_flags::mem_device);
    x[tid] = shared[simdgroup * 32 + (lane + 31) % 32];
}

// neighbour_after_barrier is correct: it uses simdgroup barriers for threadgroup memory.
kernel void neighbour_after_barrier(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    for (uint i = 0; i < 3; i++) {
        shared[tid] = x[tid] + i;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        x[tid] = shared[simdgroup * 32 + (lane + 31) % 32];
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
}

// overwritten_after_read lacks the second barrier of neighbour_after_barrier.
kernel void overwritten_after_read(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    x += group.x * 64;
    for (uint i = 0; i < 3; i++) {
        shared[tid] = x[tid] + i;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        x[tid] = shared[simdgroup * 32 + (lane + 31) % 32];
    }
}

kernel void add_one(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    uint tid [[thread_index_in_threadgroup]]) {
    if (tid < args.n) x[tid] = x[tid] + 1;
}

kernel void double_it(
    device float* x [[buffer(0)]],
    constant Args& args [[buffer(1)]],
    uint tid [[thread_index_in_threadgroup]]) {
    if (tid < args.n) x[tid] = x[tid] * 2;
}
