// The kernels of a level for activations of 8 bits, compiled as one unit.
#define PRECISION 8
#include "quantise.c"
#include "product_int.c"
#include "product_codes.c"  // uses product_int.c
