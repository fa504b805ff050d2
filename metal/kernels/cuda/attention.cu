// Attention on tensor cores over pages of the type PAGE, which the backend defines, for any mix of
// rows. A tile has up to 16 pairs: a row and one of the heads that read the same keys. Positions
// are processed in splits of 128. Queries, keys, values and weights are float16; sums are in
// float32.
//
// The result of a pair does not depend on the other pairs of its tile, since a row of a matrix
// product depends on no other row. A split has a largest score m, the sum l of the weights
// exp(score-m), and the weighted sum of the values. Splits are joined in order: by the threadgroup
// that computed them, or from memory by attention_join, with the same arithmetic.
#include "attend.h"

enum { pairs = ATTENTION_PAIRS, warps = ATTENTION_WARPS, score_stride = split_keys + 4, weight_stride = split_keys + 8 };

// warm reads count rows of a page into the multiprocessor's cache while the previous kernel still
// runs. This step must not write these rows, because the cache would retain their former contents.
__device__ inline void warm(const uchar* page, const uint* rows, uint row_bytes, uint count) {
    enum { sector = 32 };
    __shared__ uint unused[32 * warps];
    uint each = row_bytes / sector;
    for (uint i = threadIdx.x; i < count * each; i += blockDim.x) {
        copy_early<4>(unused + threadIdx.x, page + ulong(rows[i / each]) * row_bytes + i % each * sector);
    }
}

// attend computes a tile. The values of a head, up to 64·V, are divided among V warps, 64 each; the
// positions of a split are divided among 8/V groups of such warps. If Alone is set, a threadgroup
// computes one split and writes it to parts, with more reads in flight than otherwise, for grids
// that do not fill the GPU. Otherwise, it computes all splits of its tile, joins them, and writes
// the result to dst and, for the next product, quantised to packed. Grid: (tiles, key heads, splits
// or 1).
template <class P, int V, bool Alone>
__device__ inline void attend(const float* q, const uchar* keys, const uchar* values, const Slot* slots, const int* tables, const PairTile* tiles,
                              const float* sinks, float* parts, float* dst, uchar* packed, const AttentionArgs& args) {
    enum { shares = warps / V, share_keys = split_keys / shares, kept = 32 / shares };
    extern __shared__ uint4 shared[];
    float* scores = (float*)shared;                                       // [pairs][score_stride]
    ushort* weights = (ushort*)(scores + pairs * score_stride);           // [pairs][weight_stride]
    uint* rows = (uint*)(weights + pairs * weight_stride);                // [split_keys] rows of the pages
    float* split_m = (float*)(rows + split_keys);                         // [pairs]
    float* split_l = split_m + pairs;                                     // [pairs]
    float* sums = split_l + pairs;                                        // [warps][32][32 lanes] if shares > 1
    ushort* query = (ushort*)(sums + (shares > 1 ? shares * pairs * 64 * V : 0)); // [pairs][query_stride]

    uint tid = threadIdx.x, lane = tid % 32, warp = tid / 32, r = lane / 4, c = lane % 4;
    PairTile tile = tiles[blockIdx.x];
    uint group = args.heads / args.kv_heads, padded = (args.key_dim + 31) / 32 * 32, stride = query_stride(padded);
    auto row_of = [&](uint pair) { return tile.row + (tile.first + min(pair, tile.count - 1)) / group; };
    auto head_of = [&](uint pair) { return blockIdx.y * group + (tile.first + min(pair, tile.count - 1)) % group; };
    uint n = slots[row_of(tile.count - 1)].position + 1; // positions are ascending
    uint low = first_of(slots[row_of(0)].position, args.window); // no row of the tile attends to positions before
    uint begin = Alone ? (args.first + blockIdx.z) * split_keys : low / split_keys * split_keys, end = Alone ? min(begin + split_keys, n) : n;
    if (begin >= n || begin + split_keys <= low) return;
    const int* pages = tables + slots[tile.row].pages;
    auto find_rows = [&](uint first) {
        if (tid >= split_keys) return;
        uint p = min(max(first + tid, low), n - 1); // pages of other positions may be free
        rows[tid] = (uint(pages[p / args.page_size]) * args.kv_heads + blockIdx.y) * args.page_size + p % args.page_size;
    };
    find_rows(begin);
    const float* staged[2]; // the queries that this warp stages
    UNROLL for (uint h = 0; h < 2; h++) staged[h] = q + ulong(row_of(2 * warp + h)) * args.q_stride + head_of(2 * warp + h) * args.key_dim;
    uint position[2] = {slots[row_of(2 * warp)].position, slots[row_of(2 * warp + 1)].position};
    uint from[2] = {first_of(position[0], args.window), first_of(position[1], args.window)};
    uint key_bytes = P::row_bytes(args.key_dim), value_bytes = args.latent != 0 ? key_bytes : P::row_bytes(args.value_dim);
    if (Alone && P::aligned != 0) {
        __syncthreads();
        uint known = min(slots[tile.row].position, end) - min(slots[tile.row].position, begin);
        warm(keys, rows, key_bytes, known);
        if (args.latent == 0) warm(values, rows, value_bytes, known);
    }
    wait_for_previous(Alone || args.quantised == 0);

    // A warp stages the queries of two pairs. It issues the reads of many values before it uses the
    // first.
    enum { together = V == 8 ? 5 : V == 4 ? 2 : 1 };
    for (uint first = 4 * lane; first < padded; first += 128 * together) {
        float4 v[2][together];
        UNROLL for (uint i = 0; i < 2 * together; i++) {
            uint at = first + i % together * 128;
            v[i / together][i % together] = at < args.key_dim ? read_four(staged[i / together] + at) : make_float4(0, 0, 0, 0);
        }
        UNROLL for (uint i = 0; i < 2 * together; i++) {
            uint at = first + i % together * 128;
            float4 x = v[i / together][i % together];
            if (at < padded) *(uint2*)(query + (2 * warp + i / together) * stride + at) = make_uint2(two_halves(x.x, x.y), two_halves(x.z, x.w));
        }
    }
    // Of a warp's 16 pairs by 64 values, a lane has 8 neighbouring values of two pairs in each of
    // two places: 32 in all. If several warps share these sums, each finishes some of them; its
    // i-th one belongs to value value_of(i) of pair pair_of(i).
    auto quarter_of = [&](uint i) { return (warp / V * kept + i) / 8; };
    auto upper_of = [&](uint i) { return quarter_of(i) >= 2; };
    auto pair_of = [&](uint i) { return r + quarter_of(i) / 2 * 8; };
    auto value_of = [&](uint i) { return warp % V * 64 + 8 * (2 * c + quarter_of(i) % 2) + (warp / V * kept + i) % 8; };
    auto part_of = [&](uint pair) { return parts + ((ulong(row_of(pair)) * args.heads + head_of(pair)) * args.splits + blockIdx.z) * (args.value_dim + part_header); };
    uint value_share = warp / V, value_first = warp % V * 64 + 8 * r; // a lane has 8 neighbouring values
    if (value_first >= args.value_dim) value_first = 0; // the lane has none, and its results are not used
    float m[2], l[2] = {0, 0}, total[kept];
    m[0] = m[1] = lowest();
    UNROLL for (uint i = 0; i < kept; i++) total[i] = 0;

    for (uint split = begin; split < end; split += split_keys) {
        if (split > begin) {
            __syncthreads();
            find_rows(split);
        }
        __syncthreads();

        // Scores: a warp takes 16 positions. Of every 32 dimensions of queries and keys, a lane
        // takes 8 neighbouring ones. Even and odd blocks of 32 dimensions are added separately, so
        // that fewer products wait for each other.
        float score[2][2][4]; // [even, odd][positions 0 to 7, 8 to 15]
        UNROLL for (uint i = 0; i < 16; i++) score[i / 8][i / 4 % 2][i % 4] = 0;
        const uchar* key0 = keys + ulong(rows[16 * warp + r]) * key_bytes;
        const uchar* key1 = keys + ulong(rows[16 * warp + 8 + r]) * key_bytes;
        const ushort* query0 = query + r * stride + 8 * c;
        const ushort* query1 = query0 + 8 * stride;
        auto add = [&](uint d, float (&to)[2][4], bool own = true) {
            uint4 k0 = make_uint4(0, 0, 0, 0), k1 = k0;
            if (own) k0 = P::eight(key0, d + 8 * c), k1 = P::eight(key1, d + 8 * c);
            uint4 q0 = *(const uint4*)(query0 + d), q1 = *(const uint4*)(query1 + d);
            multiply_halves(to[0], q0.x, q1.x, q0.y, q1.y, k0.x, k0.y);
            multiply_halves(to[1], q0.x, q1.x, q0.y, q1.y, k1.x, k1.y);
            multiply_halves(to[0], q0.z, q1.z, q0.w, q1.w, k0.z, k0.w);
            multiply_halves(to[1], q0.z, q1.z, q0.w, q1.w, k1.z, k1.w);
        };
#pragma unroll 2
        for (uint d = 0; d + 64 <= args.key_dim; d += 64) {
            add(d, score[0]);
            add(d + 32, score[1]);
        }
        uint rest = args.key_dim / 64 * 64;
        if (rest + 32 <= args.key_dim) add(rest, score[0]), rest += 32;
        if (rest < args.key_dim) add(rest, score[1], rest + 8 * c < args.key_dim);
        UNROLL for (uint i = 0; i < 8; i++) {
            scores[(r + i / 2 % 2 * 8) * score_stride + 16 * warp + i / 4 * 8 + 2 * c + i % 2] = score[0][i / 4][i % 4] + score[1][i / 4][i % 4];
        }
        __syncthreads();

        // Weights: a warp takes two pairs, a lane 4 positions of each.
        UNROLL for (uint h = 0; h < 2; h++) {
            uint pair = 2 * warp + h;
            float4 v = *(const float4*)(scores + pair * score_stride + 4 * lane);
            float s[4] = {v.x, v.y, v.z, v.w};
            UNROLL for (uint i = 0; i < 4; i++) {
                uint p = split + 4 * lane + i;
                s[i] = p <= position[h] && p >= from[h] ? s[i] * args.scale : lowest();
            }
            Weights w = weigh(s);
            *(uint2*)(weights + pair * weight_stride + 4 * lane) = w.halves;
            if (lane == 0) split_m[pair] = w.most, split_l[pair] = w.sum;
        }
        __syncthreads();

        // Weighted values: a warp takes 64 values. Value 8r+t is column r of matrix t.
        float sum[8][4];
        UNROLL for (uint i = 0; i < 32; i++) sum[i / 4][i % 4] = 0;
#pragma unroll 2
        for (uint k = value_share * share_keys; k < (value_share + 1) * share_keys; k += 16) {
            uint4 v[4];
            UNROLL for (uint i = 0; i < 4; i++) {
                v[i] = P::eight(values + ulong(rows[k + 2 * c + i % 2 + i / 2 * 8]) * value_bytes, value_first);
            }
            const ushort* w0 = weights + r * weight_stride + k + 2 * c;
            const ushort* w1 = w0 + 8 * weight_stride;
            uint a0 = *(const uint*)w0, a1 = *(const uint*)w1, a2 = *(const uint*)(w0 + 8), a3 = *(const uint*)(w1 + 8);
            UNROLL for (uint t = 0; t < 8; t++) {
                uint take = t % 2 == 0 ? 0x5410 : 0x7632;
                uint x[4];
                UNROLL for (uint i = 0; i < 4; i++) x[i] = t < 2 ? v[i].x : t < 4 ? v[i].y : t < 6 ? v[i].z : v[i].w;
                multiply_halves(sum[t], a0, a1, a2, a3, __byte_perm(x[0], x[1], take), __byte_perm(x[2], x[3], take));
            }
        }
        float own[kept]; // the sums that this warp finishes; see pair_of and value_of
        if constexpr (shares == 1) {
            UNROLL for (uint i = 0; i < kept; i++) own[i] = sum[i % 8][i / 8];
        } else { // the warps among which the positions are divided add their sums, each a part of them
            UNROLL for (uint i = 0; i < 32; i++) sums[(warp * 32 + i) * 32 + lane] = sum[i % 8][i / 8];
            __syncthreads();
            const float* from = sums + (warp % V * 32 + value_share * kept) * 32 + lane;
            UNROLL for (uint i = 0; i < kept; i++) {
                own[i] = from[32 * i];
                UNROLL for (uint share = 1; share < shares; share++) own[i] += from[32 * (share * V * 32 + i)];
            }
        }
        if constexpr (Alone) {
            if (warp == 0 && lane < tile.count) {
                float* part = part_of(lane);
                part[0] = split_m[lane], part[1] = split_l[lane];
            }
            UNROLL for (uint i = 0; i < kept; i += 4) {
                uint pair = pair_of(i), d = value_of(i);
                if (pair < tile.count && d < args.value_dim) *(float4*)(part_of(pair) + part_header + d) = make_float4(own[i], own[i + 1], own[i + 2], own[i + 3]);
            }
        } else {
            float so_far[2], by[2];
            UNROLL for (uint h = 0; h < 2; h++) {
                uint pair = r + 8 * h;
                Joined j = join(m[h], split_m[pair]);
                m[h] = j.m, so_far[h] = j.so_far, by[h] = j.split;
                l[h] = fmaf(l[h], j.so_far, split_l[pair] * j.split);
            }
            UNROLL for (uint i = 0; i < kept; i++) {
                bool upper = upper_of(i);
                total[i] = fmaf(total[i], upper ? so_far[1] : so_far[0], own[i] * (upper ? by[1] : by[0]));
            }
        }
    }
    if (args.quantised != 0) start_next();
    if constexpr (!Alone) {
        float so_far[2];
        UNROLL for (uint h = 0; h < 2; h++) so_far[h] = join_sink(m[h], args.sinks != 0 ? sinks[head_of(r + 8 * h)] : lowest(), l[h]).so_far;
        UNROLL for (uint i = 0; i < kept; i += 4) {
            uint pair = pair_of(i), d = value_of(i);
            bool upper = upper_of(i);
            float by = upper ? so_far[1] : so_far[0], all = upper ? l[1] : l[0];
            if (pair < tile.count && d < args.value_dim) {
                uint at = head_of(pair) * args.value_dim + d;
                float4 v = make_float4(total[i] * by / all, total[i + 1] * by / all, total[i + 2] * by / all, total[i + 3] * by / all);
                write_four(dst + ulong(row_of(pair)) * args.dst_stride + at, v);
                if (args.quantised != 0) store_four(packed, row_of(pair), args.heads * args.value_dim / 32, at, v);
            }
        }
    }
}

#define ATTENTION(name, V, alone, min_blocks) \
    extern "C" __global__ void __launch_bounds__(32 * warps, min_blocks) name(const float* q, const uchar* keys, const uchar* values, const Slot* slots, \
                                                                         const int* tables, const PairTile* tiles, const float* sinks, float* parts, float* dst, uchar* packed, AttentionArgs args) { \
        attend<PAGE, V, alone>(q, keys, values, slots, tables, tiles, sinks, parts, dst, packed, args); \
    }
ATTENTION(attention_64, 1, false, 2)
ATTENTION(attention_128, 2, false, 2)
ATTENTION(attention_256, 4, false, 2)
ATTENTION(attention_512, 8, false, 2)
ATTENTION(attention_split_64, 1, true, 1)
ATTENTION(attention_split_128, 2, true, 1)
ATTENTION(attention_split_256, 4, true, 1)
ATTENTION(attention_split_512, 8, true, 1)

// attention_join joins the splits of a row and head, with the same bits as join_splits. First a
// warp computes the factors of all splits. Then each thread joins a value. Shared memory has two
// floats per split. Grid: (values / threads, heads, rows).
extern "C" __global__ void attention_join(const float* parts, const Slot* slots, const float* sinks, float* dst, uchar* packed, AttentionArgs args) {
    extern __shared__ float2 factors[]; // of the running result and of the split, as in Joined
    __shared__ float largest;
    uint d = blockIdx.x * blockDim.x + threadIdx.x, stride = args.value_dim + part_header, position = slots[blockIdx.z].position;
    uint begin = first_of(position, args.window) / split_keys, n = position / split_keys + 1 - begin;
    parts += ((ulong(blockIdx.z) * args.heads + blockIdx.y) * args.splits + (begin - args.first)) * stride;
    wait_for_previous(args.quantised == 0);
    float before = lowest(); // the largest score of the splits before those of this round
    for (uint first = 0; threadIdx.x < 32 && first < n; first += 32) {
        uint split = first + threadIdx.x;
        float own = split < n ? parts[ulong(split) * stride] : lowest(), upto = own;
        UNROLL for (uint k = 1; k < 32; k *= 2) {
            float v = __shfl_up_sync(~0u, upto, k);
            if (threadIdx.x >= k) upto = fmaxf(v, upto);
        }
        upto = fmaxf(before, upto);
        float without = __shfl_up_sync(~0u, upto, 1);
        if (threadIdx.x == 0) without = before;
        Joined j = join(without, own);
        if (split < n) factors[split] = make_float2(j.so_far, j.split);
        before = __shfl_sync(~0u, upto, 31);
        if (threadIdx.x == 0) largest = before;
    }
    __syncthreads();
    if (d >= args.value_dim) return;
    float l = 0, total = 0;
#pragma unroll 8
    for (uint split = 0; split < n; split++) {
        const float* part = parts + ulong(split) * stride;
        float2 by = factors[split];
        l = fmaf(l, by.x, part[1] * by.y);
        total = fmaf(total, by.x, part[part_header + d] * by.y);
    }
    Joined j = join_sink(largest, args.sinks != 0 ? sinks[blockIdx.y] : lowest(), l);
    if (args.quantised != 0) start_next();
    uint at = blockIdx.y * args.value_dim + d;
    float v = total * j.so_far / l;
    dst[ulong(blockIdx.z) * args.dst_stride + at] = v;
    if (args.quantised != 0) store_value(packed, blockIdx.z, args.heads * args.value_dim / 32, at, v);
}
