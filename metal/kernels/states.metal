// Operations of layers with recurrent states: the convolution over the last rows of a sequence, and
// norms with a gate.
#include "states.h"

struct ConvolveArgs {
    uint cols;
    uint x_stride;
    uint dst_stride;
    uint taps;    // rows of a convolution, its own included
    uint room;    // rows per slot: taps-1 of the state, then the log
    uint biased;  // 1 if there is a bias
};

// convolved_input returns the input of the row with the given number among those of a sequence.
// Negative numbers are rows before the batch.
inline float convolved_input(device const float* x, device const float* history, int row, uint col, constant ConvolveArgs& args, device const StateSlot& at) {
    if (row >= 0) return x[uint(row) * args.x_stride + col];
    return at.from < 0 ? 0.0f : history[uint(int(args.taps - 1 + at.accepted) + row) * args.cols + col];
}

// convolve computes up to CONVOLVE_ROWS rows of a sequence. In a sequence's list entries, rows is
// the number of all its rows from the entry's first one on. A thread has a column. The threads of
// the sequence's first rows also write the state: the taps-1 inputs before the drafts, and the log,
// which are the drafts' inputs. A thread moves a value only to the same or a lower row of its slot,
// in ascending order, so slots may be equal. Grid: (columns / 64, list entries).
kernel void convolve(
    device const float* x [[buffer(0)]],
    device const float* w [[buffer(1)]],
    device const float* bias [[buffer(2)]],
    device const StateSlot* slots [[buffer(3)]],
    device float* states [[buffer(4)]],
    device float* dst [[buffer(5)]],
    constant ConvolveArgs& args [[buffer(6)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint col = group.x * COPY_THREADS + tid;
    if (col >= args.cols) return;
    device const StateSlot& at = slots[group.y];
    int back = int(args.taps) - 1, before = int(at.before);
    device const float* history = states + ulong(max(at.from, 0)) * args.room * args.cols;
    x += (at.row - at.before) * args.x_stride;
    dst += at.row * args.dst_stride + col;
    w += col * args.taps;
    uint count = min(at.rows, uint(CONVOLVE_ROWS));
    for (uint i = 0; i < count; i++) {
        float sum = args.biased != 0 ? bias[col] : 0.0f;
        for (int j = 0; j <= back; j++) sum = fma(w[j], convolved_input(x, history, before + int(i) - back + j, col, args, at), sum);
        dst[i * args.dst_stride] = sum * sigmoid(sum);
    }
    if (before > 0) return;
    device float* to = states + ulong(at.to) * args.room * args.cols + col;
    int first = int(at.rows - at.drafts) - back;
    for (int j = 0; j < back + int(at.drafts); j++) to[uint(j) * args.cols] = convolved_input(x, history, first + j, col, args, at);
}

struct GatedNormArgs {
    uint cols;
    uint dims;  // values of a norm
    uint x_stride;
    uint gate_stride;
    uint dst_stride;
    uint gains;       // length of gain: dims or cols
    uint gate_first;  // 1 if the gate is applied before the norm
    float eps;
};

// gated_norm normalises runs of a row's values and multiplies by a gate. Each simdgroup has a run.
// dst may be x. Grid: (runs / simdgroups, rows).
kernel void gated_norm(
    device const float* x [[buffer(0)]],
    device const float* gate [[buffer(1)]],
    device const float* gain [[buffer(2)]],
    device float* dst [[buffer(3)]],
    constant GatedNormArgs& args [[buffer(4)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint from = (group.x * simdgroups + simdgroup) * args.dims;
    if (from >= args.cols) return;
    x += group.y * args.x_stride + from;
    gate += group.y * args.gate_stride + from;
    dst += group.y * args.dst_stride + from;
    if (args.gains == args.cols) gain += from;
    bool first = args.gate_first != 0;
    float sum = 0;
    for (uint i = lane; i < args.dims; i += 32) {
        float v = first ? x[i] * (gate[i] * sigmoid(gate[i])) : x[i];
        sum = fma(v, v, sum);
    }
    float scale = rsqrt(tree_sum(sum) / float(args.dims) + args.eps);
    for (uint i = lane; i < args.dims; i += 32) {
        float factor = gate[i] * sigmoid(gate[i]);
        dst[i] = first ? x[i] * factor * scale * gain[i] : x[i] * scale * gain[i] * factor;
    }
}
