// Recurrent layers on generated rows, which are computed one after another.
#include "recurrence.h"

// read_row reads a query or a key, of which a lane has every 32nd value.
inline void read_row(device const float* x, uint n, uint lane, thread float* v) {
    UNROLL for (uint i = 0; i < STATE_KEYS / 32; i++) v[i] = lane + 32 * i < n ? x[lane + 32 * i] : 0.0f;
}

// stage_row writes a query or a key to threadgroup memory. For the delta rule, it normalises it to
// the given length.
template <uint R>
inline void stage_row(thread const float* v, float length, float eps, uint lane, threadgroup float* to) {
    float scale = 1;
    if (R == delta_rule) {
        float sum = 0;
        UNROLL for (uint i = 0; i < STATE_KEYS / 32; i++) sum = fma(v[i], v[i], sum);
        scale = length * rsqrt(tree_sum(sum) + eps);
    }
    UNROLL for (uint i = 0; i < STATE_KEYS / 32; i++) to[lane + 32 * i] = v[i] * scale;
}

// recur computes rows one after another. A column of a matrix is in registers of two lanes,
// each of which has half of the keys. Sums have four strands in each half. shared has two rows of a
// key and a query. The lengths of a key and of a value are K and V, so that indices are known at
// compile time, or those of the arguments if K is 0. Grid: (columns / (16·simdgroups), heads, list
// entries).
template <uint R, uint K, uint V>
kernel void recur(
    device const float* qkv [[buffer(0)]],
    device const float* gates [[buffer(1)]],
    device const float* decay [[buffer(2)]],
    device const float* bias [[buffer(3)]],
    device const float* skip [[buffer(4)]],
    device const StateSlot* slots [[buffer(5)]],
    device float* matrices [[buffer(6)]],
    device float* logs [[buffer(7)]],
    device float* dst [[buffer(8)]],
    constant RecurrenceArgs& args [[buffer(9)]],
    threadgroup float* shared [[threadgroup(0)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    constexpr uint mine = STATE_KEYS / 2;
    device const StateSlot& at = slots[group.z];
    uint key_dim = K > 0 ? K : args.key_dim, value_dim = K > 0 ? V : args.value_dim;
    uint head = group.y, col = (group.x * simdgroups + simdgroup) * 16 + lane % 16, from_key = lane / 16 * mine;
    bool inside = col < value_dim;
    uint keep = at.rows - at.drafts;  // rows that the state includes
    ulong size = ulong(key_dim) * value_dim;
    device const float* x = qkv + at.row * args.stride + key_head(args, head) * key_dim;
    device const float* values = qkv + at.row * args.stride + args.values + head * value_dim + (inside ? col : 0);
    gates += at.row * args.gate_stride + head;
    dst += at.row * args.dst_stride + head * value_dim + col;

    // The first rows of a key and a query are read before the matrix, which takes longer. The first
    // simdgroup stages keys, and the last one queries.
    bool stages_key = simdgroup == 0, stages_query = simdgroup + 1 == simdgroups;
    uint other_gate = R == delta_rule ? args.heads : 0;  // the gate of the matrix's factor
    float k[STATE_KEYS / 32], q[STATE_KEYS / 32];
    if (stages_key) read_row(x + args.keys, key_dim, lane, k);
    if (stages_query) read_row(x + args.queries, key_dim, lane, q);
    float v = values[0], b = gates[0], a = gates[other_gate];

    float s[mine];
    device const float* from = matrices + (ulong(max(at.from, 0)) * args.heads + head) * size + col;
    UNROLL for (uint i = 0; i < mine; i++) s[i] = inside && at.from >= 0 && (K == 2 * mine || from_key + i < key_dim) ? from[(from_key + i) * value_dim] : 0.0f;
    for (uint r = 0; r < at.accepted; r++) {
        device const float* entry = logs + log_row(args, uint(at.from), r, head);
        float change = inside ? entry[key_dim + col] : 0.0f, factor = entry[key_dim + value_dim];
        UNROLL for (uint i = 0; i < mine; i++) s[i] = fma((K == 2 * mine || from_key + i < key_dim) ? entry[from_key + i] : 0.0f, change, s[i] * factor);
    }
    float log_factor = decay[head], offset = bias[head], length = rsqrt(float(key_dim));
    if (stages_key) stage_row<R>(k, 1.0f, args.eps, lane, shared);
    if (stages_query) stage_row<R>(q, length, args.eps, lane, shared + STATE_KEYS);
    for (uint r = 0; r <= at.rows; r++) {
        if (r == keep) {
            device float* to = matrices + (ulong(at.to) * args.heads + head) * size + col;
            UNROLL for (uint i = 0; i < mine; i++) {
                if (inside && (K == 2 * mine || from_key + i < key_dim)) to[(from_key + i) * value_dim] = s[i];
            }
        }
        if (r == at.rows) break;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        threadgroup const float* row = shared + r % 2 * 2 * STATE_KEYS;
        float value = v, beta = sigmoid(b), step = softplus(a + offset), factor = exp(log_factor * step);
        if (r + 1 < at.rows) {
            x += args.stride;
            gates += args.gate_stride;
            values += args.stride;
            if (stages_key) read_row(x + args.keys, key_dim, lane, k);
            if (stages_query) read_row(x + args.queries, key_dim, lane, q);
            v = values[0];
            b = gates[0];
            a = gates[other_gate];
        }
        UNROLL for (uint i = 0; i < mine; i++) s[i] = s[i] * factor;
        float change = step * value;
        if (R == delta_rule) {
            float4 sums = float4(0.0f, 0.0f, 0.0f, 0.0f);
            UNROLL for (uint i = 0; i < mine; i += 4) {
                float4 key = four_at(row + from_key + i);
                sums.x = fma(s[i], key.x, sums.x);
                sums.y = fma(s[i + 1], key.y, sums.y);
                sums.z = fma(s[i + 2], key.z, sums.z);
                sums.w = fma(s[i + 3], key.w, sums.w);
            }
            float sum = (sums.x + sums.y) + (sums.z + sums.w);
            sum += simd_shuffle_xor(sum, 16);
            change = beta * (value - sum);
        }
        float4 sums = float4(0.0f, 0.0f, 0.0f, 0.0f);
        UNROLL for (uint i = 0; i < mine; i += 4) {
            float4 key = four_at(row + from_key + i), query = four_at(row + STATE_KEYS + from_key + i);
            s[i] = fma(key.x, change, s[i]);
            s[i + 1] = fma(key.y, change, s[i + 1]);
            s[i + 2] = fma(key.z, change, s[i + 2]);
            s[i + 3] = fma(key.w, change, s[i + 3]);
            sums.x = fma(s[i], query.x, sums.x);
            sums.y = fma(s[i + 1], query.y, sums.y);
            sums.z = fma(s[i + 2], query.z, sums.z);
            sums.w = fma(s[i + 3], query.w, sums.w);
        }
        float sum = (sums.x + sums.y) + (sums.z + sums.w);
        sum += simd_shuffle_xor(sum, 16);
        bool writes = inside && lane < 16;
        if (writes) dst[r * args.dst_stride] = R == delta_rule ? sum : fma(skip[head], value, sum);
        if (r >= keep) {
            device float* entry = logs + log_row(args, at.to, r - keep, head);
            if (writes) entry[key_dim + col] = change;
            if (group.x == 0 && simdgroup == 0) {
                for (uint i = lane; i < key_dim; i += 32) entry[i] = row[i];
                if (lane == 0) entry[key_dim + value_dim] = factor;
            }
        }
        threadgroup float* next = shared + (r + 1) % 2 * 2 * STATE_KEYS;
        if (stages_key) stage_row<R>(k, 1.0f, args.eps, lane, next);
        if (stages_query) stage_row<R>(q, length, args.eps, lane, next + STATE_KEYS);
    }
}
INSTANTIATE("delta_step", recur, delta_rule, 0, 0)
INSTANTIATE("delta_step_128_128", recur, delta_rule, 128, 128)
INSTANTIATE("scan_step", recur, scan_rule, 0, 0)
INSTANTIATE("scan_step_128_64", recur, scan_rule, 128, 64)
