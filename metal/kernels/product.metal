// Products of weights with few rows of activations, and gated products. The backend instantiates
// the templates that its geometry chooses.
#include "products.h"

struct ProductArgs {
    uint n;           // weights per row
    uint row_bytes;
    uint rows;        // rows of activations
    uint x_stride;
    uint dst_stride;
    uint x_matrix;    // values between the activations of one matrix and of the next
    uint dst_matrix;
    uint add;         // 1 if results are added to dst
    uint out0, out1, out2;   // rows of each weight
    uint groups0, groups1;   // threadgroups of the first two weights
};

// product writes W·x for up to three weights, one after another in a row of dst, or for the
// matrices of one weight. Each team of a simdgroup multiplies R rows of weights with N rows of
// activations. Grid: (groups of rows of weights, rows / N, matrices).
template <typename W, uint R, uint N>
kernel void product(
    device const uchar* w0 [[buffer(0)]],
    device const uchar* w1 [[buffer(1)]],
    device const uchar* w2 [[buffer(2)]],
    device const float* x [[buffer(3)]],
    device float* dst [[buffer(4)]],
    constant ProductArgs& args [[buffer(5)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    device const uchar* w = w0;
    uint out = args.out0, first = group.x;
    dst += group.z * args.dst_matrix;
    if (first >= args.groups0) {
        w = w1;
        first -= args.groups0;
        dst += out;
        out = args.out1;
        if (first >= args.groups1) {
            w = w2;
            first -= args.groups1;
            dst += out;
            out = args.out2;
        }
    }
    first = own_rows((first * simdgroups + simdgroup) * teams * R, lane, R);
    uint row = group.y * N, at = min(first, out - 1);
    x += group.z * args.x_matrix + row * args.x_stride;
    dst += row * args.dst_stride;
    w += (ulong(group.z) * out + at) * args.row_bytes;

    float sums[R * N];
    if (N > 1) {
        Rows rows = {x, args.x_stride, args.rows - row};
        staged_products<W, 1, R, N>(w, w, args.row_bytes, out - at, rows, args.n, shared, tid, simdgroups * 32, lane, sums);
    } else if (args.n <= STAGED_ROW) {
        StagedRow row = {x, shared, tid, simdgroups * 32, false};
        row_products<W, 1, R>(w, w, args.row_bytes, out - at, row, args.n, lane, sums);
    } else {
        Row row = {x};
        row_products<W, 1, R>(w, w, args.row_bytes, out - at, row, args.n, lane, sums);
    }
    UNROLL for (uint i = 0; i < R * N; i++) {
        uint r = i / N, j = i % N;
        if (lane % strands == i % strands && first + r < out && row + j < args.rows) {
            device float* to = dst + j * args.dst_stride + first + r;
            *to = args.add != 0 ? *to + sums[i] : sums[i];
        }
    }
}

struct GatedArgs {
    uint n;
    uint row_bytes;
    uint rows;
    uint x_stride;
    uint dst_stride;
    uint out;
    uint activation;
};

// gated_product writes the activations of gate·x and up·x. Grid: (groups of rows of weights, rows /
// N).
template <typename W, uint R, uint N>
kernel void gated_product(
    device const uchar* gate [[buffer(0)]],
    device const uchar* up [[buffer(1)]],
    device const float* x [[buffer(2)]],
    device float* dst [[buffer(3)]],
    constant GatedArgs& args [[buffer(4)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint row = group.y * N;
    x += row * args.x_stride;
    uint first = own_rows((group.x * simdgroups + simdgroup) * teams * R, lane, R), own = min(first, args.out - 1);
    dst += row * args.dst_stride + first;
    ulong at = ulong(own) * args.row_bytes;

    float sums[2 * R * N];
    if (N > 1) {
        Rows rows = {x, args.x_stride, args.rows - row};
        staged_products<W, 2, R, N>(gate + at, up + at, args.row_bytes, args.out - own, rows, args.n, shared, tid, simdgroups * 32, lane, sums);
    } else if (args.n <= STAGED_ROW) {
        StagedRow row = {x, shared, tid, simdgroups * 32, false};
        row_products<W, 2, R>(gate + at, up + at, args.row_bytes, args.out - own, row, args.n, lane, sums);
    } else {
        Row row = {x};
        row_products<W, 2, R>(gate + at, up + at, args.row_bytes, args.out - own, row, args.n, lane, sums);
    }
    UNROLL for (uint i = 0; i < R * N; i++) {
        uint r = i / N, j = i % N;
        if (lane % strands == i % strands && first + r < args.out && row + j < args.rows) dst[j * args.dst_stride + r] = activate(args.activation, sums[i], sums[R * N + i]);
    }
}

struct GateArgs {
    uint cols;
    uint gate_stride;
    uint up_stride;
    uint dst_stride;
    uint activation;
};

// gate computes the gated activation of values that other kernels have written. Grid: (columns /
// 64, rows).
kernel void gate(
    device const float* gates [[buffer(0)]],
    device const float* ups [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant GateArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i >= args.cols) return;
    dst[group.y * args.dst_stride + i] = activate(args.activation, gates[group.y * args.gate_stride + i], ups[group.y * args.up_stride + i]);
}
