// Attention of a tile of queries over a run of cached positions.
#include "args.h"
#include "math.h"

#define NAME(kernel) kernel
#define SIZE 4
#define CACHED(p) LOAD(f32x16, p)
#define CACHED_ONE(p) LOAD(float, p)
#include "attention.h"

#define NAME(kernel) kernel##_f16
#define SIZE 2
#define CACHED(p) CONVERT(LOAD(f16x16, p), f32x16)
#define CACHED_ONE(p) ((float)LOAD(_Float16, p))
#include "attention.h"
