// The kernels for weights of the type WEIGHT, which the backend defines.
#include "experts.h"
#include "pack.h"
#include "split.h"

extern "C" __global__ void pack_weights(const uchar* from, uchar* to, PackArgs args) { pack<WEIGHT>(from, to, args); }
extern "C" __global__ void embed_rows(const uchar* table, const float* tokens, float* dst, EmbedArgs args) { embed<WEIGHT>(table, tokens, dst, args); }

// BOUNDS gives the threads per threadgroup, and the minimum number of threadgroups resident on a
// multiprocessor.
#define BOUNDS(A, teams, min_blocks) __launch_bounds__(32 * A::warps * teams, min_blocks)

#define PRODUCT(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, \
                                                            ProductArgs args) { \
        product<WEIGHT, A, teams>(w0, w1, w2, w3, x, dst, args); \
    }
#define SPLIT_PRODUCT(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, \
                                                            float4* parts, uint* counters, ProductArgs args) { \
        split_product<WEIGHT, A>(w0, w1, w2, w3, x, dst, parts, counters, args); \
    }
#define BALANCED_PRODUCT(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const uchar* x, float* dst, \
                                                            float4* parts, uint* finished, BalancedArgs args) { \
        balanced_product<WEIGHT, A>(w0, w1, w2, w3, x, dst, parts, finished, args); \
    }
#define GATED(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* x, float* dst, uchar* packed, GatedArgs args) { \
        gated_product<WEIGHT, A, teams>(gate, up, x, dst, packed, args); \
    }
#define GATED_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, \
                                                            const float* routing, const uint* list, const ExpertTile* tiles, const float* gate_bias, \
                                                            const float* up_bias, const float* gates, float* dst, uchar* packed, ExpertsArgs args) { \
        gated_experts<WEIGHT, A, teams>(gate, up, shared_gate, shared_up, x, list, tiles, gate_bias, up_bias, gates, dst, packed, args); \
    }
#define EXPERTS_DOWN(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* down, const uchar* shared_down, const uchar* h, const uchar* shared_h, \
                                                            const float* routing, const uint* list, const ExpertTile* tiles, const float* bias, float* dst, \
                                                            ExpertsArgs args) { \
        experts_down<WEIGHT, A, teams>(down, shared_down, h, shared_h, list, tiles, bias, dst, args); \
    }

#define ROW_PRODUCT(name, A, teams, min_blocks, rounds) \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* w3, const float* x, \
                                                            const float* table, const Slot* at, const float* gain, float* made, float* dst, float* latent, \
                                                            const float* latent_gain, uchar* keys, RowArgs args) { \
        row_product<WEIGHT, A, teams, rounds>(w0, w1, w2, w3, x, table, at, gain, made, dst, latent, latent_gain, keys, args); \
    }
#define ROW_GATED(name, A, teams, min_blocks, rounds) \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS, min_blocks) name(const uchar* gate, const uchar* up, const float* x, const float* gain, float* made, \
                                                            float* dst, RowGatedArgs args) { \
        row_gated_product<WEIGHT, A, teams, rounds>(gate, up, x, gain, made, dst, args); \
    }
#define ROW_GATED_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, \
                                                            const float* logits, const float* bias, const float* gate_bias, const float* up_bias, const uchar* down, const uchar* shared_down, \
                                                            const float* shared_gates, float* routing, float* dst, RowGatedExpertsArgs args) { \
        row_gated_experts<WEIGHT, A>(gate, up, shared_gate, shared_up, x, logits, bias, gate_bias, up_bias, down, shared_down, shared_gates, routing, dst, args); \
    }
// teams is the maximum number of choices: one team takes each.
#define ROW_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* down, const uchar* shared_down, const float* h, const float* logits, const float* bias, \
                                                            const float* down_bias, float* dst, RowExpertsArgs args) { \
        row_experts_add<WEIGHT, A>(down, shared_down, h, logits, bias, down_bias, dst, args); \
    }

// The backend adds the instances: packedGeometry in metal/nvidia_weights.go.
