// The kernels of a level, but for those of fast.c, compiled as one unit.
#include "attention.c"
#include "cache.c"
#include "draw.c"
#include "elementwise.c"
#include "quantise.c"
#include "product_float.c"
#include "product_int.c"
#include "product_codes.c"  // uses product_int.c
