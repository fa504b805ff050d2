// RMSNorm: dst = src/sqrt(mean(src²)+eps)·gain, or dst += src/sqrt(mean(src²)+eps)·gain. A
// threadgroup processes a row.
#include "norm.h"

struct NormArgs {
    uint cols;
    uint src_stride;
    uint dst_stride;
    float eps;
    uint add;  // 1 if the result is added to dst
};

kernel void rms_norm(
    device const float* src [[buffer(0)]],
    device const float* gain [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant NormArgs& args [[buffer(3)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    src += group.x * args.src_stride;
    dst += group.x * args.dst_stride;
    norm_row(src, gain, dst, args.cols, args.eps, args.add != 0, shared, tid, lane, simdgroup, simdgroups);
}
