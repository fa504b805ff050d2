// Activations, quantised to 8 bits in blocks of 32 values. The largest magnitude of a block becomes 127. Eight rows are packed
// together; for each block of 32 columns they have 320 bytes:
//   256 bytes of values: bytes 8(4g+q) and up are values 4q to 4q+3 of row g, then values 4q+16 to 4q+19
//   8 pairs of float32, one per row: the scale, and the scale times the sum of the block's integers
#include "base.h"

// Quantised is one lane's part of a block: 8 values, and the block's scale and sum. Four lanes hold a block.
struct Quantised {
    uint2 q;
    float d, sum;
};

__device__ inline float largest(float4 v) { return fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))); }

// quantise_four rounds v*by to integers of a byte each. Adding MAGIC rounds to an integer and leaves it in the low byte.
__device__ inline uint quantise_four(float4 v, float by) {
    uint a = __float_as_uint(fmaf(v.x, by, MAGIC)), b = __float_as_uint(fmaf(v.y, by, MAGIC));
    uint c = __float_as_uint(fmaf(v.z, by, MAGIC)), d = __float_as_uint(fmaf(v.w, by, MAGIC));
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// byte_sum adds four signed bytes to sum.
__device__ inline int byte_sum(uint v, int sum) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(v), "r"(0x01010101), "r"(sum));
    return r;
}

// quantise quantises a block. Four neighbouring lanes call it with 8 values each. If a value is not finite, the
// scale is not finite either.
__device__ inline Quantised quantise(float4 low, float4 high) {
    float most = fmaxf(largest(low), largest(high));
    float finite = fmaf(low.x + low.y + low.z + low.w, 0.0f, (high.x + high.y + high.z + high.w) * 0.0f);
    UNROLL for (uint m = 1; m < 4; m *= 2) {
        most = fmaxf(most, __shfl_xor_sync(~0u, most, m));
        finite += __shfl_xor_sync(~0u, finite, m);
    }
    float by = most > 0 ? 127.0f / most : 0.0f;
    Quantised r;
    r.q = make_uint2(quantise_four(low, by), quantise_four(high, by));
    int sum = byte_sum(r.q.x, byte_sum(r.q.y, 0));
    UNROLL for (uint m = 1; m < 4; m *= 2) sum += __shfl_xor_sync(~0u, sum, m);
    r.d = most / 127.0f + finite;
    r.sum = r.d * float(sum);
    return r;
}

// store writes a lane's part of block b of a row.
__device__ inline void store(uchar* to, uint row, uint b, uint blocks, uint q, const Quantised& v) {
    uchar* p = to + (ulong(row / 8) * blocks + b) * column_bytes;
    uint g = row % 8;
    *(uint2*)(p + 8 * (4 * g + q)) = v.q;
    if (q == 0) *(float2*)(p + 256 + 8 * g) = make_float2(v.d, v.sum);
}

struct QuantiseArgs {
    uint blocks;    // per slice
    uint rows;
    uint room;      // rows from one slice to the next in the result, a multiple of 8
    uint x_stride;
    uint x_slice;   // values from one slice of a row to the next
};

// quantise_rows quantises slices of rows. Slice z of row r becomes row z*room+r of the result. Four lanes take a block. Grid:
// (4·blocks·rows / threads, 1, slices).
extern "C" __global__ void quantise_rows(const float* x, uchar* to, QuantiseArgs args) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x, q = i % 4, row = i / 4 / args.blocks, b = i / 4 % args.blocks;
    bool there = row < args.rows;
    const float* p = x + ulong(there ? row : 0) * args.x_stride + ulong(blockIdx.z) * args.x_slice + 32 * b + 4 * q;
    Quantised v = quantise(read_four(p), read_four(p + 16));
    if (there) store(to, blockIdx.z * args.room + row, b, args.blocks, q, v);
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

// rotate_queries writes the rotated values of MLA's queries to dst, after each head's product with W_kb. Grid: (rows·dims/2 / threads,
// heads).
extern "C" __global__ void rotate_queries(const float* q, const float* table, const Slot* slots, float* dst, RotateArgs args) {
    uint i = blockIdx.x * blockDim.x + threadIdx.x, row = i / (args.dims / 2), pair = i % (args.dims / 2);
    if (row >= args.rows) return;
    rotate_pair(q + ulong(row) * args.q_stride + blockIdx.y * (args.nope + args.dims) + args.nope,
                dst + ulong(row) * args.dst_stride + blockIdx.y * (args.latent + args.dims) + args.latent, table + ulong(slots[row].position) * args.dims, pair);
}

struct NormArgs {
    uint cols;  // a multiple of 32
    uint src_stride;
    uint dst_stride;
    float eps;
    uint add;  // 0: the portable kernel computes other values
};

// norm_quantise is RMSNorm for up to 8192 columns. It writes the result in float32 and quantised. A threadgroup of up to 256 threads
// takes a row; a thread holds 8 values of each of up to 4 blocks.
extern "C" __global__ void __launch_bounds__(256) norm_quantise(const float* src, const float* gain, float* dst, uchar* to, NormArgs args) {
    __shared__ float sums[32];
    uint tid = threadIdx.x, lanes = args.cols / 8;
    src += ulong(blockIdx.x) * args.src_stride;
    dst += ulong(blockIdx.x) * args.dst_stride;
    float4 v[4][2], g[4][2];
    auto offset_of = [&](uint u) { // offset of a thread's values; 0 if the thread has none
        uint i = tid + u * blockDim.x;
        return i < lanes ? 32 * (i / 4) + 4 * (i % 4) : 0;
    };
    float sum = 0;
    UNROLL for (uint u = 0; u < 4; u++) {
        if (u * blockDim.x >= lanes) break;
        UNROLL for (uint h = 0; h < 2; h++) {
            v[u][h] = read_four(src + offset_of(u) + 16 * h);
            g[u][h] = read_four(gain + offset_of(u) + 16 * h);
        }
    }
    UNROLL for (uint u = 0; u < 4; u++) {
        if (u * blockDim.x >= lanes) break;
        UNROLL for (uint h = 0; h < 2; h++) {
            float4 x = v[u][h];
            if (tid + u * blockDim.x < lanes) sum = fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
        }
    }
    UNROLL for (uint m = 16; m > 0; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
    if (tid % 32 == 0) sums[tid / 32] = sum;
    __syncthreads();
    float total = 0;
    for (uint i = 0; i < blockDim.x / 32; i++) total += sums[i];
    float scale = 1.0f / sqrtf(total / float(args.cols) + args.eps);
    UNROLL for (uint u = 0; u < 4; u++) {
        if (u * blockDim.x >= lanes) break;
        UNROLL for (uint h = 0; h < 2; h++) {
            float4 &x = v[u][h], by = g[u][h];
            x = make_float4(x.x * scale * by.x, x.y * scale * by.y, x.z * scale * by.z, x.w * scale * by.w);
        }
        Quantised out = quantise(v[u][0], v[u][1]);
        uint i = tid + u * blockDim.x;
        if (i >= lanes) continue;
        UNROLL for (uint h = 0; h < 2; h++) {
            float* y = dst + offset_of(u) + 16 * h;
            y[0] = v[u][h].x, y[1] = v[u][h].y, y[2] = v[u][h].z, y[3] = v[u][h].w;
        }
        store(to, blockIdx.x, i / 4, args.cols / 32, i % 4, out);
    }
}
