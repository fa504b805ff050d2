// Attention over latents (MLA) in pages of F16, on Hopper. Its results have the bits of
// attention.cu, with the same sums in the same order, but the latents of a split are copied to
// shared memory once, for up to 32 pairs of a row and a head, and are keys and values there. As
// soon as all warps have used 32 positions as values, those of the next split are copied in their
// place.
#include "attend.h"

enum {
    latent_warps = ATTENTION_WARPS,
    block_keys = 32, // positions that arrive together
    blocks = split_keys / block_keys,
    score_stride = split_keys + 4,
    weight_stride = split_keys + 8,
    warp_values = 64,
};

// key_place returns the bytes from one latent to the next in shared memory. Eight neighbouring ones
// are in different banks.
__device__ inline uint key_place(uint key_bytes) { return (key_bytes + 127) / 128 * 128 + 16; }

// attend_latents computes a tile, 16*M pairs at a time. A score has two sums, as in attention.cu:
// of the even and of the odd blocks of 32 dimensions. Four warps compute each of them, for 32
// positions each. Then a warp takes 64 values. If Alone is set, a threadgroup computes some splits
// and writes them to parts. Otherwise, it computes all splits of its tile, joins them, and writes
// the result to dst and, for the next product, quantised to packed. Grid: (tiles, 1, groups of
// splits or 1).
template <int M, bool Alone>
__device__ inline void attend_latents(const float* q, const uchar* keys, const Slot* slots, const int* tables, const PairTile* tiles, const float* sinks, float* parts,
                                      float* dst, uchar* packed, const AttentionArgs& args) {
    enum { pairs = 16 * M, warp_pairs = pairs / latent_warps };
    extern __shared__ uint4 shared[];
    uint key_bytes = 2 * args.key_dim, place = key_place(key_bytes), stride = query_stride(args.key_dim);
    uchar* staged = (uchar*)shared;                             // [split_keys][place]
    ushort* query = (ushort*)(staged + split_keys * place);     // [pairs][stride]
    float* scores = (float*)(query + pairs * stride);           // [even, odd][pairs][score_stride]
    ushort* weights = (ushort*)(scores + 2 * pairs * score_stride); // [pairs][weight_stride]
    float* split_m = (float*)(weights + pairs * weight_stride); // [pairs]
    float* split_l = split_m + pairs;                           // [pairs]
    ulong* arrived = (ulong*)(split_l + pairs);                 // [blocks]

    uint tid = threadIdx.x, lane = tid % 32, warp = tid / 32, r = lane / 4, c = lane % 4;
    PairTile tile = tiles[gridDim.x - 1 - blockIdx.x]; // the longest ones of a sequence first
    auto row_of = [&](uint pair) { return tile.row + (tile.first + min(pair, tile.count - 1)) / args.heads; };
    auto head_of = [&](uint pair) { return (tile.first + min(pair, tile.count - 1)) % args.heads; };
    // The positions to which the tile attends, and its splits. Positions are ascending.
    uint low = first_of(slots[row_of(0)].position, args.window), n = slots[row_of(tile.count - 1)].position + 1, before = slots[tile.row].position;
    uint first_split = 0, last_split = n / split_keys;
    if (Alone) {
        first_split = args.first + blockIdx.z * args.each, last_split = first_split + args.each - 1;
        if (max(first_split, low / split_keys) * split_keys >= min(n, (last_split + 1) * split_keys)) return;
    }
    auto begin_of = [&](uint pair) { return max(first_split, first_of(slots[row_of(pair)].position, args.window) / split_keys) * split_keys; };
    const int* pages = tables + slots[tile.row].pages;

    // Sixteen lanes of a warp copy one latent of each split, four of them in each block. To issue
    // copies takes a warp some time, so all warps do it.
    enum { together = block_keys / latent_warps };
    bool copies = lane < together * blocks;
    uint own_block = lane / together, own_key = own_block * block_keys + warp * together + lane % together;
    auto latent = [&](uint split) {
        uint p = min(max(split + own_key, low), n - 1); // pages of other positions may be free
        return keys + (ulong(pages[p / args.page_size]) * args.page_size + p % args.page_size) * key_bytes;
    };
    auto copy = [&](const uchar* from) { copy_bulk(staged + own_key * place, from, key_bytes, arrived + own_block); };
    if (tid == 0) {
        prepare_arrivals(arrived, blocks);
        show_to_tensor_cores();
    }
    const uchar* next = nullptr;
    bool early = Alone && min(max(begin_of(0) + own_key, low), n - 1) < before; // this step may write the others
    __syncthreads();
    if (tid < blocks) expect_arrival(arrived + tid, block_keys * key_bytes);
    if (copies) next = latent(begin_of(0));
    if (copies && early) copy(next);
    wait_for_previous(Alone || args.quantised == 0);
    if (copies && !early) copy(next);

    bool has_values = warp_values * warp < args.value_dim;
    uint phase = 0, base = 0; // the first of the present pairs
    // A lane has values 8t+2c and 8t+2c+1 of pairs 16m+r and 16m+8+r in sums[m][t]. each_four calls
    // use(pair, d, v) with four neighbouring values from d on, of which neighbouring lanes have two
    // each.
    auto each_four = [&](const float (&sums)[M][8][4], auto use) {
        UNROLL for (uint m = 0; m < M; m++) {
            UNROLL for (uint t = 0; t < 8; t++) {
                const float(&v)[4] = sums[m][t];
                bool odd = c % 2 != 0;
                float x = __shfl_xor_sync(~0u, odd ? v[0] : v[2], 1), y = __shfl_xor_sync(~0u, odd ? v[1] : v[3], 1);
                uint pair = base + 16 * m + r + (odd ? 8 : 0), d = warp_values * warp + 8 * t + c / 2 * 4;
                float4 four = odd ? make_float4(x, y, v[2], v[3]) : make_float4(v[0], v[1], x, y);
                if (pair < tile.count) use(pair, d, four);
            }
        }
    };
    for (; base < tile.count; base += pairs) {
        uint begin = begin_of(base), end = min(n, min(slots[row_of(base + pairs - 1)].position / split_keys, last_split) * split_keys + split_keys);
        // A warp stages the queries of the pairs whose weights it computes, two at a time.
        uint position[warp_pairs], from[warp_pairs];
        UNROLL for (uint two = 0; two < warp_pairs; two += 2) {
            enum { reads = 5 };
            const float* own[2];
            UNROLL for (uint h = 0; h < 2; h++) {
                uint pair = base + warp_pairs * warp + two + h;
                own[h] = q + ulong(row_of(pair)) * args.q_stride + head_of(pair) * args.key_dim;
                position[two + h] = slots[row_of(pair)].position;
                from[two + h] = first_of(position[two + h], args.window);
            }
            for (uint first = 4 * lane; first < args.key_dim; first += 128 * reads) {
                float4 v[2 * reads];
                UNROLL for (uint i = 0; i < 2 * reads; i++) {
                    uint at = first + i % reads * 128;
                    v[i] = at < args.key_dim ? read_four(own[i / reads] + at) : make_float4(0, 0, 0, 0);
                }
                UNROLL for (uint i = 0; i < 2 * reads; i++) {
                    uint at = first + i % reads * 128;
                    if (at < args.key_dim) *(uint2*)(query + (warp_pairs * warp + two + i / reads) * stride + at) = make_uint2(two_halves(v[i].x, v[i].y), two_halves(v[i].z, v[i].w));
                }
            }
        }

        float m[M][2], l[M][2], total[M][8][4];
        UNROLL for (uint i = 0; i < 2 * M; i++) m[i / 2][i % 2] = lowest(), l[i / 2][i % 2] = 0;
        UNROLL for (uint i = 0; i < 32 * M; i++) total[i / 32][i / 4 % 8][i % 4] = 0;
        __syncthreads();

        for (uint split = begin; split < end; split += split_keys) {
            // The split that follows, of these pairs or of the next. A single split stays.
            uint following = split + split_keys < end ? split + split_keys : base + pairs < tile.count ? begin_of(base + pairs) : split;
            bool more = following != split;
            // Scores. A lane takes 8 neighbouring ones of 32 dimensions. Column 2i of a product is
            // position i, and column 2i+1 is position i+4, so that lanes read different banks.
            uint part = warp / blocks, first_key = warp % blocks * block_keys;
            float score[M][4][4];
            UNROLL for (uint i = 0; i < 16 * M; i++) score[i / 16][i / 4 % 4][i % 4] = 0;
            const uchar* key = staged + (first_key + r / 2 + r % 2 * 4) * place + 16 * c;
            const ushort* own = query + r * stride + 8 * c;
            wait_for_arrival(arrived + warp % blocks, phase);
#pragma unroll 2
            for (uint d = 32 * part; d < args.key_dim; d += 64) {
                uint4 k[4], x[M][2];
                UNROLL for (uint t = 0; t < 4; t++) k[t] = *(const uint4*)(key + 8 * t * place + 2 * d);
                UNROLL for (uint i = 0; i < 2 * M; i++) x[i / 2][i % 2] = *(const uint4*)(own + 8 * i * stride + d);
                UNROLL for (uint i = 0; i < M; i++) {
                    UNROLL for (uint t = 0; t < 4; t++) multiply_halves(score[i][t], x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y, k[t].x, k[t].y);
                }
                UNROLL for (uint i = 0; i < M; i++) {
                    UNROLL for (uint t = 0; t < 4; t++) multiply_halves(score[i][t], x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w, k[t].z, k[t].w);
                }
            }
            UNROLL for (uint i = 0; i < 16 * M; i++) {
                scores[(part * pairs + i / 16 * 16 + i / 2 % 2 * 8 + r) * score_stride + first_key + i / 4 % 4 * 8 + i % 2 * 4 + c] = score[i / 16][i / 4 % 4][i % 4];
            }
            if (more && copies) next = latent(following);
            __syncthreads();

            // Weights: a warp takes some pairs, a lane 4 positions of each.
            UNROLL for (uint h = 0; h < warp_pairs; h++) {
                uint pair = warp_pairs * warp + h;
                float4 even = *(const float4*)(scores + pair * score_stride + 4 * lane), odd = *(const float4*)(scores + (pairs + pair) * score_stride + 4 * lane);
                float s[4] = {even.x + odd.x, even.y + odd.y, even.z + odd.z, even.w + odd.w};
                UNROLL for (uint i = 0; i < 4; i++) {
                    uint p = split + 4 * lane + i;
                    s[i] = p <= position[h] && p >= from[h] ? s[i] * args.scale : lowest();
                }
                Weights w = weigh(s);
                *(uint2*)(weights + pair * weight_stride + 4 * lane) = w.halves;
                if (lane == 0) split_m[pair] = w.most, split_l[pair] = w.sum;
            }
            __syncthreads();

            // Weighted values. Those of 16 positions are columns of the matrices that a warp reads.
            float sum[M][8][4];
            UNROLL for (uint i = 0; i < 32 * M; i++) sum[i / 32][i / 4 % 8][i % 4] = 0;
            UNROLL for (uint b = 0; b < blocks; b++) wait_for_arrival(arrived + b, phase);
            const ushort* weight = weights + lane % 16 * weight_stride + lane / 16 * 8;
            const uchar* value = staged + lane % 16 * place + 2 * (warp_values * warp + lane / 16 * 8);
            for (uint b = 0; b < blocks; b++) {
                if (has_values) {
                    UNROLL for (uint k = block_keys * b; k < block_keys * (b + 1); k += 16) {
                        uint a[M][4];
                        UNROLL for (uint i = 0; i < M; i++) read_matrices(a[i], weight + 16 * i * weight_stride + k);
                        UNROLL for (uint two = 0; two < 4; two++) {
                            uint v[4];
                            read_columns(v, value + k * place + 32 * two);
                            UNROLL for (uint i = 0; i < M; i++) {
                                multiply_halves(sum[i][2 * two], a[i][0], a[i][1], a[i][2], a[i][3], v[0], v[1]);
                                multiply_halves(sum[i][2 * two + 1], a[i][0], a[i][1], a[i][2], a[i][3], v[2], v[3]);
                            }
                        }
                    }
                }
                __syncthreads();
                if (more && tid == 0) expect_arrival(arrived + b, block_keys * key_bytes);
                if (more && copies && own_block == b) copy(next);
            }
            if constexpr (Alone) {
                auto part_of = [&](uint pair) {
                    return parts + ((ulong(row_of(pair)) * args.heads + head_of(pair)) * args.splits + split / split_keys - args.first) * (args.value_dim + part_header);
                };
                if (tid < pairs && base + tid < tile.count) {
                    float* part = part_of(base + tid);
                    part[0] = split_m[tid], part[1] = split_l[tid];
                }
                if (has_values) each_four(sum, [&](uint pair, uint d, float4 v) { *(float4*)(part_of(pair) + part_header + d) = v; });
            } else {
                UNROLL for (uint i = 0; i < 2 * M; i++) {
                    float &most = m[i / 2][i % 2], &all = l[i / 2][i % 2];
                    Joined j = join(most, split_m[8 * i + r]);
                    most = j.m;
                    all = fmaf(all, j.so_far, split_l[8 * i + r] * j.split);
                    UNROLL for (uint t = 0; t < 8; t++) {
                        UNROLL for (uint k = i % 2 * 2; k < i % 2 * 2 + 2; k++) total[i / 2][t][k] = fmaf(total[i / 2][t][k], j.so_far, sum[i / 2][t][k] * j.split);
                    }
                }
            }
            if (more) phase ^= 1;
        }
        if (args.quantised != 0 && base + pairs >= tile.count) start_next();
        if constexpr (!Alone) {
            UNROLL for (uint i = 0; i < 2 * M; i++) {
                float by = join_sink(m[i / 2][i % 2], args.sinks != 0 ? sinks[head_of(base + 8 * i + r)] : lowest(), l[i / 2][i % 2]).so_far;
                UNROLL for (uint t = 0; t < 8; t++) {
                    UNROLL for (uint k = i % 2 * 2; k < i % 2 * 2 + 2; k++) total[i / 2][t][k] = total[i / 2][t][k] * by / l[i / 2][i % 2];
                }
            }
            if (has_values) {
                each_four(total, [&](uint pair, uint d, float4 v) {
                    uint at = head_of(pair) * args.value_dim + d;
                    write_four(dst + ulong(row_of(pair)) * args.dst_stride + at, v);
                    if (args.quantised != 0) store_four(packed, row_of(pair), args.heads * args.value_dim / 32, at, v);
                });
            }
        }
    }
}

#define LATENT_ATTENTION(name, M, alone) \
    extern "C" __global__ void __launch_bounds__(32 * latent_warps, 1) name(const float* q, const uchar* keys, const uchar* values, const Slot* slots, \
                                                                           const int* tables, const PairTile* tiles, const float* sinks, float* parts, float* dst, uchar* packed, AttentionArgs args) { \
        attend_latents<M, alone>(q, keys, slots, tables, tiles, sinks, parts, dst, packed, args); \
    }
LATENT_ATTENTION(latent_attention, 2, false)
LATENT_ATTENTION(latent_attention_split, 2, true)
