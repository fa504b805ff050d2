// Activations in float16, divided by 4, so that values up to 262,016 have room. Larger ones are
// limited to that; values that are not finite stay so. Weights are 4 times as large (weights.h).
// Eight rows are packed together; for each block of 32 columns they have 512 bytes: the 16 bytes
// from 16(4g+q) on are values 4q, 4q+2, 4q+1 and 4q+3 of row g, then values 4q+16, 4q+18, 4q+17 and
// 4q+19.
//
// For weights of 16 bits, activations have two parts: float16 of the value itself, and float16 of
// what rounding left of it. The parts of a block follow each other like two blocks, each of which
// is multiplied with the same block of weights.
#include "base.h"

// limited returns v*by, limited to the range of float16.
__device__ inline float limited(float v, float by) { return fmaf(v, 0.0f, fminf(fmaxf(v * by, -65504.0f), 65504.0f)); }

__device__ inline float4 limited(float4 v, float by) {
    return make_float4(limited(v.x, by), limited(v.y, by), limited(v.z, by), limited(v.w, by));
}

// factor returns what activations are multiplied with, before they become float16.
__device__ inline float factor(uint parts) { return parts == 1 ? 0.25f : 1.0f; }

// less returns what rounding left of four values: a and b have them as float16, in packed order.
__device__ inline float4 less(float4 v, uint a, uint b) {
    return make_float4(v.x - half_float(a), v.y - half_float(b), v.z - half_float(a >> 16), v.w - half_float(b >> 16));
}

// take_part rounds eight values to float16. It leaves in low and high what rounding left of them.
__device__ inline uint4 take_part(float4& low, float4& high) {
    uint4 v = make_uint4(two_halves(low.x, low.z), two_halves(low.y, low.w), two_halves(high.x, high.z), two_halves(high.y, high.w));
    low = less(low, v.x, v.y), high = less(high, v.z, v.w);
    return v;
}

// in_halves returns eight values as activations of one part.
__device__ inline uint4 in_halves(float4 low, float4 high) {
    low = limited(low, factor(1)), high = limited(high, factor(1));
    return take_part(low, high);
}

// store writes a lane's part of block b of a row.
__device__ inline void store(uchar* to, uint row, uint b, uint blocks, uint q, uint4 v) {
    *(uint4*)(to + (ulong(row / 8) * blocks + b) * column_bytes + 16 * (row % 8 * 4 + q)) = v;
}

// stored_at returns where value i of a row is stored. blocks is the number of blocks of the row.
__device__ inline uchar* stored_at(uchar* to, uint row, uint blocks, uint i) {
    uint in = i % 4; // values 1 and 2 of four change places
    return to + (ulong(row / 8) * blocks + i / 32) * column_bytes + 16 * (row % 8 * 4 + i % 16 / 4) + i % 32 / 16 * 8 + 2 * (in % 2 * 2 + in / 2);
}

// store_value writes value i of a row as an activation of one part.
__device__ inline void store_value(uchar* to, uint row, uint blocks, uint i, float v) {
    *(ushort*)stored_at(to, row, blocks, i) = two_halves(limited(v, factor(1)), 0);
}

// store_four writes values i to i+3 of a row as activations of one part. i is a multiple of 4.
__device__ inline void store_four(uchar* to, uint row, uint blocks, uint i, float4 v) {
    v = limited(v, factor(1));
    *(uint2*)stored_at(to, row, blocks, i) = make_uint2(two_halves(v.x, v.z), two_halves(v.y, v.w));
}

struct QuantiseArgs {
    uint blocks;    // per slice
    uint rows;
    uint room;      // rows from one slice to the next in the result, a multiple of 8
    uint x_stride;
    uint x_slice;   // values from one slice of a row to the next
    uint parts;     // 2 for weights of 16 bits
};

// quantise_rows quantises slices of rows. Slice z of row r becomes row z*room+r of the result. Four
// lanes take a block. Grid: (4·blocks·rows / threads, 1, slices).
extern "C" __global__ void quantise_rows(const float* x, uchar* to, QuantiseArgs args) {
    wait_for_previous();
    uint i = blockIdx.x * blockDim.x + threadIdx.x, q = i % 4, row = i / 4 / args.blocks, b = i / 4 % args.blocks;
    bool there = row < args.rows;
    const float* p = x + ulong(there ? row : 0) * args.x_stride + ulong(blockIdx.z) * args.x_slice + 32 * b + 4 * q;
    float by = factor(args.parts);
    float4 low = limited(read_four(p), by), high = limited(read_four(p + 16), by);
    for (uint i = 0; i < args.parts; i++) {
        uint4 v = take_part(low, high);
        if (there) store(to, blockIdx.z * args.room + row, args.parts * b + i, args.parts * args.blocks, q, v);
    }
}

struct GateArgs {
    uint blocks;
    uint rows;
    uint stride;
    uint gate_stride;
};

// gate_rows is sigmoid_gate of rows.metal for a gate per value. It also quantises the rows, in one
// part. Four lanes take a block. Grid: 4·blocks·rows / threads.
extern "C" __global__ void gate_rows(const float* gate, float* x, uchar* to, GateArgs args) {
    wait_for_previous();
    uint i = blockIdx.x * blockDim.x + threadIdx.x, q = i % 4, row = i / 4 / args.blocks, b = i / 4 % args.blocks, at = 32 * b + 4 * q;
    if (row >= args.rows) return;
    float* p = x + ulong(row) * args.stride + at;
    gate += ulong(row) * args.gate_stride + at;
    float4 v[2];
    UNROLL for (uint h = 0; h < 2; h++) {
        float4 by = read_four(gate + 16 * h);
        v[h] = read_four(p + 16 * h);
        v[h] = make_float4(v[h].x / (1.0f + expf(-by.x)), v[h].y / (1.0f + expf(-by.y)), v[h].z / (1.0f + expf(-by.z)), v[h].w / (1.0f + expf(-by.w)));
        write_four(p + 16 * h, v[h]);
    }
    store(to, row, b, args.blocks, q, in_halves(v[0], v[1]));
}

struct RotateArgs {
    uint rows;
    uint nope;        // values of a query head that are not rotated; they come first
    uint dims;        // rotated values of a head
    uint latent;      // values of a head of dst before the rotated ones
    uint q_stride;
    uint dst_stride;
};

// rotate_pair rotates pair i of src.
__device__ inline void rotate_pair(const float* src, float* dst, const float* angles, uint i) {
    float a = src[2 * i], b = src[2 * i + 1], c = angles[2 * i], s = angles[2 * i + 1];
    dst[2 * i] = fmaf(a, c, -(b * s));
    dst[2 * i + 1] = fmaf(a, s, b * c);
}

// rotate rotates n pairs. All threads of the threadgroup call it.
__device__ inline void rotate(const float* src, float* dst, const float* angles, uint n) {
    for (uint i = threadIdx.x; i < n; i += blockDim.x) rotate_pair(src, dst, angles, i);
}

// rotate_queries writes the rotated values of MLA's queries to dst, after each head's product with
// W_kb. Grid: (rows·dims/2 / threads, heads).
extern "C" __global__ void rotate_queries(const float* q, const float* table, const Slot* slots, float* dst, RotateArgs args) {
    wait_for_previous();
    uint i = blockIdx.x * blockDim.x + threadIdx.x, row = i / (args.dims / 2), pair = i % (args.dims / 2);
    if (row >= args.rows) return;
    rotate_pair(q + ulong(row) * args.q_stride + blockIdx.y * (args.nope + args.dims) + args.nope,
                dst + ulong(row) * args.dst_stride + blockIdx.y * (args.latent + args.dims) + args.latent, table + ulong(slots[row].position) * args.dims, pair);
}

// Normed has a thread's values of a row that is normalised: up to R rounds of 8 values. threads is
// the number of threads per row. It determines the order of the sum, so all kernels that normalise
// a row use the same number.
template <int R>
struct Normed {
    float4 v[R][2], g[R][2];
    uint thread, threads, lanes;  // lanes is the number of threads that would take the whole row in one round

    __device__ Normed(uint thread, uint threads, uint cols) : thread(thread), threads(threads), lanes(cols / 8) {}

    __device__ bool has(uint u) const { return thread + u * threads < lanes; }
    // block and offset return the block of the thread's values in round u, and the offset of the
    // values; 0 if the thread has none.
    __device__ uint block(uint u) const { return has(u) ? (thread + u * threads) / 4 : 0; }
    __device__ uint offset(uint u) const { return has(u) ? 32 * block(u) + 4 * (thread % 4) : 0; }

    // read_gains reads the gains of the values.
    __device__ void read_gains(const float* gain) {
        UNROLL for (uint u = 0; u < R; u++) {
            if (u * threads >= lanes) break;
            UNROLL for (uint h = 0; h < 2; h++) g[u][h] = read_four(gain + offset(u) + 16 * h);
        }
    }

    // load reads the values, squares returns the sum of their squares, and read does both.
    __device__ void load(const float* x) {
        UNROLL for (uint u = 0; u < R; u++) {
            if (u * threads >= lanes) break;
            UNROLL for (uint h = 0; h < 2; h++) v[u][h] = read_four(x + offset(u) + 16 * h);
        }
    }
    __device__ float read(const float* x) {
        load(x);
        return squares();
    }
    __device__ float squares() const {
        float sum = 0;
        UNROLL for (uint u = 0; u < R; u++) {
            if (u * threads >= lanes) break;
            UNROLL for (uint h = 0; h < 2; h++) {
                float4 x = v[u][h];
                if (has(u)) sum = fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
            }
        }
        return sum;
    }

    // write multiplies the values by scale and their gains, and writes them to y unless y is null.
    // use(u, low, high) receives them.
    template <class Use>
    __device__ void write(float* y, float scale, Use use) {
        UNROLL for (uint u = 0; u < R; u++) {
            if (u * threads >= lanes) break;
            UNROLL for (uint h = 0; h < 2; h++) {
                float4 &x = v[u][h], by = g[u][h];
                x = make_float4(x.x * scale * by.x, x.y * scale * by.y, x.z * scale * by.z, x.w * scale * by.w);
                if (y && has(u)) write_four(y + offset(u) + 16 * h, x);
            }
            use(u, v[u][0], v[u][1]);
        }
    }
};

// rms_scale returns 1/sqrt(mean(x²)+eps) of a row of cols values, given the sums of warps.
__device__ inline float rms_scale(const float* sums, uint warps, uint cols, float eps) {
    float total = 0;
    for (uint i = 0; i < warps; i++) total += sums[i];
    return 1.0f / sqrtf(total / float(cols) + eps);
}

// NormRow normalises a row with the first threads of a threadgroup. The constructor reads the
// gains. It can be called while the previous kernel still runs. All threads of the threadgroup call
// it.
template <int R>
struct NormRow {
    Normed<R> values;
    uint threads;

    __device__ NormRow(const float* gain, uint blocks, uint threads) : values(threadIdx.x, threads, 32 * blocks), threads(threads) {
        if (threadIdx.x < threads) values.read_gains(gain);
    }

    // normalise writes the result to y unless y is null, and passes the values of each round u to
    // put(u, low, high).
    template <class Put>
    __device__ void normalise(const float* x, float* y, uint blocks, float eps, Put put) {
        __shared__ float sums[8];
        bool takes = threadIdx.x < threads;
        float sum = takes ? warp_sum(values.read(x)) : 0.0f;
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        if (takes) values.write(y, rms_scale(sums, threads / 32, 32 * blocks, eps), put);
    }
};

struct NormArgs {
    uint cols;  // a multiple of 32
    uint src_stride;
    uint dst_stride;
    float eps;
    uint add;  // 1 if the result is added to dst
};

// norm_quantise is RMSNorm for up to 8192 columns. It writes the result in float32 and quantised,
// or adds it to dst. A threadgroup of up to 256 threads takes a row.
extern "C" __global__ void __launch_bounds__(256) norm_quantise(const float* src, const float* gain, float* dst, uchar* to, NormArgs args) {
    __shared__ float sums[8];
    Normed<4> row(threadIdx.x, blockDim.x, args.cols);
    row.read_gains(gain);
    wait_for_previous();
    float sum = warp_sum(row.read(src + ulong(blockIdx.x) * args.src_stride));
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    float scale = rms_scale(sums, blockDim.x / 32, args.cols, args.eps);
    dst += ulong(blockIdx.x) * args.dst_stride;
    row.write(args.add != 0 ? nullptr : dst, scale, [&](uint u, float4 low, float4 high) {
        if (!row.has(u)) return;
        if (args.add != 0) {
            add_four(dst + row.offset(u), low);
            add_four(dst + row.offset(u) + 16, high);
        } else {
            store(to, blockIdx.x, row.block(u), args.cols / 32, row.thread % 4, in_halves(low, high));
        }
    });
}

// chained_norms is the maximum number of norms of norm_chain.
enum { chained_norms = CHAINED_NORMS };

struct ChainArgs {
    uint cols;  // a multiple of 32, at most 4096
    uint count;
    uint apart;   // 1 if no norm needs another one, so that each has threadgroups of its own
    uint src_stride0, src_stride1, src_stride2;
    uint dst_stride0, dst_stride1, dst_stride2;
    uint carried;  // bit i is 1 if the rows of norm i are the results of the one before
    uint adds;     // bit i is 1 if the result of norm i is added to its dst
    uint scaled;   // the number of the norm after which dst is multiplied by scale, counted from 1; 0 for none
    float scale;
    float eps;
    uint quantised;  // 1 if the result of the last norm is also written as activations
};

// norm_chain computes RMSNorms of the same rows one after another, as norm_quantise does. Rows that
// are not carried, and those to which results are added, are read before any norm. Grid: (rows, 1
// or, if they are apart, norms), with up to 256 threads.
extern "C" __global__ void __launch_bounds__(256) norm_chain(const float* src0, const float* src1, const float* src2, const float* gain0, const float* gain1, const float* gain2,
                                                             float* dst0, float* dst1, float* dst2, uchar* packed, ChainArgs args) {
    __shared__ float sums[chained_norms][8];
    const float *src[chained_norms] = {src0, src1, src2}, *gain[chained_norms] = {gain0, gain1, gain2};
    float* dst[chained_norms] = {dst0, dst1, dst2};
    uint src_stride[chained_norms] = {args.src_stride0, args.src_stride1, args.src_stride2}, dst_stride[chained_norms] = {args.dst_stride0, args.dst_stride1, args.dst_stride2};
    Normed<2> row(threadIdx.x, blockDim.x, args.cols), norm[chained_norms] = {row, row, row};
    float4 before[chained_norms][2][2], result[2][2];
    auto takes = [&](uint i) { return i < args.count && (args.apart == 0 || i == blockIdx.y); };
    auto set = [](uint bits, uint i) { return (bits >> i & 1) != 0; };
    UNROLL for (uint i = 0; i < chained_norms; i++) {
        dst[i] += ulong(blockIdx.x) * dst_stride[i];
        if (takes(i)) norm[i].read_gains(gain[i]);
    }
    wait_for_previous();
    UNROLL for (uint i = 0; i < chained_norms; i++) {
        if (!takes(i)) continue;
        if (!set(args.carried, i)) norm[i].load(src[i] + ulong(blockIdx.x) * src_stride[i]);
        UNROLL for (uint u = 0; u < 2; u++) {
            UNROLL for (uint h = 0; h < 2; h++) {
                if (set(args.adds, i) && row.has(u)) before[i][u][h] = read_four(dst[i] + row.offset(u) + 16 * h);
            }
        }
    }
    UNROLL for (uint i = 0; i < chained_norms; i++) {
        if (!takes(i)) continue;
        UNROLL for (uint u = 0; u < 2; u++) {
            UNROLL for (uint h = 0; h < 2; h++) {
                if (i > 0 && set(args.carried, i)) norm[i].v[u][h] = result[u][h];
            }
        }
        float sum = warp_sum(norm[i].squares());
        if (threadIdx.x % 32 == 0) sums[i][threadIdx.x / 32] = sum;
        __syncthreads();
        float scale = args.scaled == i + 1 ? args.scale : 1.0f;
        norm[i].write(nullptr, rms_scale(sums[i], blockDim.x / 32, args.cols, args.eps), [&](uint u, float4 low, float4 high) {
            if (!row.has(u)) return;
            UNROLL for (uint h = 0; h < 2; h++) {
                float4 v = h == 0 ? low : high;
                if (set(args.adds, i)) v = plus_four(before[i][u][h], v);
                result[u][h] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
                write_four(dst[i] + row.offset(u) + 16 * h, result[u][h]);
            }
            if (args.quantised != 0 && i + 1 == args.count) store(packed, blockIdx.x, row.block(u), args.cols / 32, row.thread % 4, in_halves(low, high));
        });
    }
}

struct LatentArgs {
    uint latent;  // values of the latent, a multiple of 32
    uint dims;
    float eps;
};

// latent_threads is the number of threads that normalise a latent or a compressed query. They take
// up to 4096 values.
enum { latent_threads = LATENT_THREADS };

// store_latent finishes a row [latent | key]: it normalises the latent and rotates the key, in
// place, and stores both in a page of float16. It waits for the previous kernel. All threads of the
// threadgroup call it. R is the number of rounds of the norm.
template <int R>
__device__ inline void store_latent(float* x, const float* gain, const float* table, const Slot& slot, uchar* keys, const LatentArgs& args) {
    ushort* page = (ushort*)keys + ulong(slot.slot) * (args.latent + args.dims);
    const float* angles = table + ulong(slot.position) * args.dims;
    NormRow<R> row(gain, args.latent / 32, latent_threads);
    wait_for_previous();
    float* key = x + args.latent;
    for (uint i = threadIdx.x; i < args.dims / 2; i += blockDim.x) {
        rotate_pair(key, key, angles, i);
        *(uint*)(page + args.latent + 2 * i) = two_halves(key[2 * i], key[2 * i + 1]);
    }
    row.normalise(x, x, args.latent / 32, args.eps, [&](uint u, float4 low, float4 high) {
        if (!row.values.has(u)) return;
        *(uint2*)(page + row.values.offset(u)) = make_uint2(two_halves(low.x, low.y), two_halves(low.z, low.w));
        *(uint2*)(page + row.values.offset(u) + 16) = make_uint2(two_halves(high.x, high.y), two_halves(high.z, high.w));
    });
}

struct LatentsArgs {
    LatentArgs latent;
    uint q;       // values of the compressed query, a multiple of 32
    uint stride;
    uint dst_stride;
};

// latents finishes rows [query | latent | key]: see store_latent. It writes the normalised query to
// dst and, quantised, to packed. Grid: (rows, 2), or (rows, 1) without a query; latent_threads
// threads.
extern "C" __global__ void __launch_bounds__(latent_threads) latents(float* a, const float* q_gain, const float* kv_gain, const float* table, const Slot* slots,
                                                                     uchar* keys, float* dst, uchar* packed, LatentsArgs args) {
    float* x = a + ulong(blockIdx.x) * args.stride;
    if (blockIdx.y == 0) {
        store_latent<4>(x + args.q, kv_gain, table, slots[blockIdx.x], keys, args.latent);
        return;
    }
    NormRow<4> row(q_gain, args.q / 32, latent_threads);
    wait_for_previous();
    row.normalise(x, dst + ulong(blockIdx.x) * args.dst_stride, args.q / 32, args.latent.eps, [&](uint u, float4 low, float4 high) {
        if (row.values.has(u)) store(packed, blockIdx.x, row.values.block(u), args.q / 32, threadIdx.x % 4, in_halves(low, high));
    });
}
