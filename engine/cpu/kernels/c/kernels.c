// All kernels of a level, compiled as one unit.
#include "attention.c"
#include "cache.c"
#include "draw.c"
#include "elementwise.c"
#include "product_float.c"
#include "product_int.c"
#include "product_codes.c"  // uses product_int.c
