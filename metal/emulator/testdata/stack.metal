// A kernel whose local values do not fit into a fibre's stack or a GPU's registers.
using namespace metal;

kernel void deep_stack(
    device float* x [[buffer(0)]],
    uint tid [[thread_index_in_threadgroup]]) {
    float values[20000];
    for (uint i = 0; i < 20000; i++) values[i] = x[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    x[tid] = values[uint(x[tid]) * 300];
}
