// The kernels for weights of the type WEIGHT, which the backend defines.
#include "experts.h"
#include "pack.h"

extern "C" __global__ void pack_weights(const uchar* from, uchar* to, PackArgs args) { pack<WEIGHT>(from, to, args); }
extern "C" __global__ void embed_rows(const uchar* table, const float* tokens, float* dst, EmbedArgs args) { embed<WEIGHT>(table, tokens, dst, args); }

// BOUNDS gives the threads per threadgroup, and the minimum number of threadgroups resident on a multiprocessor.
#define BOUNDS(A, teams, min_blocks) __launch_bounds__(32 * A::warps * teams, min_blocks)

#define PRODUCT(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const uchar* x, float* dst, ProductArgs args) { \
        product<WEIGHT, A, teams>(w0, w1, w2, x, dst, args); \
    }
#define GATED(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* x, float* dst, GatedArgs args) { \
        gated_product<WEIGHT, A, teams>(gate, up, x, dst, args); \
    }
#define GATED_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, \
                                                            const float* routing, const uint* list, const ExpertTile* tiles, float* dst, ExpertsArgs args) { \
        gated_experts<WEIGHT, A, teams>(gate, up, shared_gate, shared_up, x, list, tiles, dst, args); \
    }
#define EXPERTS_DOWN(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* down, const uchar* shared_down, const uchar* h, const uchar* shared_h, \
                                                            const float* routing, const uint* list, const ExpertTile* tiles, float* dst, ExpertsArgs args) { \
        experts_down<WEIGHT, A, teams>(down, shared_down, h, shared_h, list, tiles, dst, args); \
    }

#define ROW_PRODUCT(name, A, teams, threads, min_blocks, rounds) \
    extern "C" __global__ void __launch_bounds__(threads, min_blocks) name(const uchar* w0, const uchar* w1, const uchar* w2, const float* x, const float* table, \
                                                            const Slot* at, const float* gain, float* made, float* dst, float* latent, \
                                                            const float* latent_gain, uchar* keys, RowArgs args) { \
        row_product<WEIGHT, A, teams, rounds>(w0, w1, w2, x, table, at, gain, made, dst, latent, latent_gain, keys, args); \
    }
#define ROW_GATED_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* gate, const uchar* up, const uchar* shared_gate, const uchar* shared_up, const uchar* x, \
                                                            const float* logits, const float* bias, float* routing, float* dst, RowGatedArgs args) { \
        row_gated_experts<WEIGHT, A, teams>(gate, up, shared_gate, shared_up, x, logits, bias, routing, dst, args); \
    }
// teams is the maximum number of choices: one team takes each.
#define ROW_EXPERTS(name, A, teams, min_blocks) \
    extern "C" __global__ void BOUNDS(A, teams, min_blocks) name(const uchar* down, const uchar* shared_down, const float* h, const float* logits, const float* bias, \
                                                            float* dst, RowExpertsArgs args) { \
        row_experts_add<WEIGHT, A>(down, shared_down, h, logits, bias, dst, args); \
    }

// The algorithms of the kernels below. One, Two and Four take 1, 2 and 4 columns; Few takes 8, Some 16 and Many 32. The gated algorithms
// have one group of gate and one group of up.
typedef Lanes<WEIGHT, 1, 1, 4, 4> One;
typedef Lanes<WEIGHT, 1, 2, 4, 2> Two;
typedef Lanes<WEIGHT, 1, 4, 4, 1> Four;
typedef Tensor<WEIGHT, 1, 1, 1, 4> Few;
typedef Tensor<WEIGHT, 1, 2, 1, 4> Some;
typedef Tensor<WEIGHT, 2, 4, 1, 1> Many;
typedef Tensor<WEIGHT, 2, 1, 4, 4> WideFew; // for matrices of many rows
typedef Tensor<WEIGHT, 1, 1, 4, 4> DownFew;
typedef Lanes<WEIGHT, 1, 1, 4, 2> RowDown;
typedef Lanes<WEIGHT, 1, 1, 4, 2> RowShort; // for rows of few blocks
typedef Lanes<WEIGHT, 2, 1, 4, 2> RowGated;
typedef Lanes<WEIGHT, 2, 1, 4, 2> GatedOne;
typedef Tensor<WEIGHT, 2, 1, 4, 4> GatedFew;
typedef Tensor<WEIGHT, 2, 4, 1, 1> GatedMany;

ROW_PRODUCT(row_product, One, 1, 256, 2, 2)
ROW_PRODUCT(row_product_short, RowShort, 4, 256, 3, 1)
ROW_GATED_EXPERTS(row_gated_experts, RowGated, 2, 2)
PRODUCT(product_1, One, 2, 4)
PRODUCT(product_2, Two, 2, 4)
PRODUCT(product_4, Four, 2, 3)
PRODUCT(product_8, Few, 1, 3)
PRODUCT(product_8_wide, WideFew, 2, 4)
PRODUCT(product_16, Some, 1, 2)
PRODUCT(product_32, Many, 1, 2)
GATED(gated_product_1, GatedOne, 2, 4)
GATED(gated_product_8, GatedFew, 2, 4)
GATED(gated_product_32, GatedMany, 1, 2)
GATED_EXPERTS(gated_experts_8, GatedFew, 2, 4)
GATED_EXPERTS(gated_experts_32, GatedMany, 1, 2)
EXPERTS_DOWN(experts_down_8, DownFew, 2, 5)
EXPERTS_DOWN(experts_down_32, Many, 1, 2)
ROW_EXPERTS(row_experts_add, RowDown, 12, 1)
