// Projection of MLA's queries into the latent space. The backend instantiates the templates that
// its geometry chooses.
#include "products.h"
#include "slots.h"
#include "rope.h"

struct AbsorbArgs {
    uint nope;       // number of a query's values that are multiplied with W_kb
    uint latent;     // number of values of the product with W_kb
    uint dims;       // number of rotated values
    uint row_bytes;
    uint rows;
    uint q_stride;
    uint dst_stride;
    uint groups;     // number of threadgroups that multiply; one more threadgroup rotates
};

// absorb turns the query [nope | rope] of each head into [W_kb[head]·nope | rotated rope]. Grid:
// (groups + 1, rows / N, heads).
template <typename W, uint R, uint N>
kernel void absorb(
    device const uchar* kb [[buffer(0)]],
    device const float* q [[buffer(1)]],
    device const float* table [[buffer(2)]],
    device const Slot* slots [[buffer(3)]],
    device float* dst [[buffer(4)]],
    constant AbsorbArgs& args [[buffer(5)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
    uint row = group.y * N;
    q += row * args.q_stride + group.z * (args.nope + args.dims);
    dst += row * args.dst_stride + group.z * (args.latent + args.dims);
    if (group.x == args.groups) {
        for (uint j = 0; j < N && row + j < args.rows; j++) {
            device const float* angles = table + slots[row + j].position * args.dims;
            rotate(q + j * args.q_stride + args.nope, dst + j * args.dst_stride + args.latent, angles, args.dims / 2, false, tid, simdgroups * 32);
        }
        return;
    }
    uint first = (group.x * simdgroups + simdgroup) * teams * R;
    if (first >= args.latent) return;
    first = own_rows(first, lane, R);
    uint at = min(first, args.latent - 1);
    float sums[R * N];
    device const uchar* w = kb + (ulong(group.z) * args.latent + at) * args.row_bytes;
    if (N > 1) {
        products<W, R, N>(w, args.row_bytes, args.latent - at, q, args.q_stride, args.rows - row, args.nope, lane, sums);
    } else {
        Row x = {q};
        row_products<W, 1, R>(w, w, args.row_bytes, args.latent - at, x, args.nope, lane, sums);
    }
    UNROLL for (uint i = 0; i < R * N; i++) {
        uint r = i / N, j = i % N;
        if (lane % strands == i % strands && first + r < args.latent && row + j < args.rows) dst[j * args.dst_stride + first + r] = sums[i];
    }
}
