// Embeddings of tokens, and copies of rows.
#include "quants.h"

struct EmbedArgs {
    uint cols;
    uint row_bytes;
    uint token_stride;
    uint dst_stride;
};

// embed dequantises the row of each token. A thread dequantises a chunk. Tokens are floats, like
// those that top writes. Grid: (chunks / threads, rows).
template <typename W>
kernel void embed(
    device const uchar* table [[buffer(0)]],
    device const float* tokens [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant EmbedArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint c = group.x * EMBED_THREADS + tid;
    if (16 * c >= args.cols) return;
    float w[16];
    load_weights<W>(table + ulong(tokens[group.y * args.token_stride]) * args.row_bytes, c, args.cols, w);
    dst += group.y * args.dst_stride;
    UNROLL for (uint i = 0; i < 16; i++) {
        uint k = W::at(c, i / 4) + i % 4;
        if (k < args.cols) dst[k] = w[i];
    }
}

#define EMBED(type, name) INSTANTIATE("embed_" name, embed, type)
EACH_TYPE(EMBED)

struct AffineArgs {
    uint cols;
    uint stride;
    uint biased;  // 1 if there is a bias
    float scale;
};

// affine multiplies rows by a factor and adds a bias, in place. Grid: (columns / 64, rows).
kernel void affine(
    device float* t [[buffer(0)]],
    device const float* bias [[buffer(1)]],
    constant AffineArgs& args [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i >= args.cols) return;
    device float* v = t + group.y * args.stride + i;
    float scaled = args.scale == 0 ? 0.0f : *v * args.scale;
    *v = args.biased != 0 ? scaled + bias[i] : scaled;
}

struct GatingArgs {
    uint cols;
    uint gates;  // cols, or 1 if the gate applies to the whole row
    uint gate_stride;
    uint stride;
};

// sigmoid_gate multiplies rows by the sigmoid of other rows, in place. Grid: (columns / 64, rows).
kernel void sigmoid_gate(
    device const float* gate [[buffer(0)]],
    device float* dst [[buffer(1)]],
    constant GatingArgs& args [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i < args.cols) dst[group.y * args.stride + i] /= 1.0f + exp(-gate[group.y * args.gate_stride + min(i, args.gates - 1)]);
}

struct SoftCapArgs {
    uint cols;
    uint stride;
    float limit;
};

// soft_cap limits values to limit·tanh(value/limit), in place: tanh(z) = 1 - 2/(exp(2z)+1). Each
// thread limits CAPPED_VALUES values. Grid: (columns / values of a threadgroup, rows).
kernel void soft_cap(
    device float* t [[buffer(0)]],
    constant SoftCapArgs& args [[buffer(1)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint first = group.x * COPY_THREADS * CAPPED_VALUES + tid;
    device float* row = t + group.y * args.stride;
    float v[CAPPED_VALUES];
    UNROLL for (uint k = 0; k < CAPPED_VALUES; k++) {
        uint i = first + k * COPY_THREADS;
        v[k] = i < args.cols ? row[i] : 0.0f;
    }
    UNROLL for (uint k = 0; k < CAPPED_VALUES; k++) {
        uint i = first + k * COPY_THREADS;
        if (i < args.cols) row[i] = args.limit * (1.0f - 2.0f / (exp(2.0f * (v[k] / args.limit)) + 1.0f));
    }
}

struct GatherArgs {
    uint cols;
    uint src_stride;
    uint dst_stride;
};

// gather copies rows. Grid: (columns / 64, rows).
kernel void gather(
    device const float* src [[buffer(0)]],
    device const int* rows [[buffer(1)]],
    device float* dst [[buffer(2)]],
    constant GatherArgs& args [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    uint i = group.x * COPY_THREADS + tid;
    if (i < args.cols) dst[group.y * args.dst_stride + i] = src[uint(rows[group.y]) * args.src_stride + i];
}
