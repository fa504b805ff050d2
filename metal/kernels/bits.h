// Unpacking of small integers from blocks that are aligned to two bytes.
#include "defs.h"

inline ushort4 read_8(device const uchar* p) { return ushort4(*(device const packed_ushort4*)p); }
inline uint read_4(device const uchar* p) { return as_type<uint>(ushort2(*(device const packed_ushort2*)p)); }
inline float read_half(device const uchar* p) { return float(*(device const half*)p); }

// number returns the integer (bits & mask) - zero as a float. mask must have no bits above bit 22.
// The result is exact: the masked bits become the low bits of the float 2^23, from which 2^23 +
// zero is then subtracted. GPUs convert and shift integers at a quarter of the rate of additions.
// So callers do not shift the bits down. Instead, they divide the number's scale by the place value
// of the lowest bit, which is also exact.
// A driver may define MASKED_OR if its compiler needs two instructions otherwise.
#if !defined(MASKED_OR)
#define MASKED_OR(bits, mask, high) (((bits) & (mask)) | (high))
#endif
inline float number(uint bits, uint mask, uint zero) { return as_type<float>(MASKED_OR(bits, mask, 0x4b000000)) - (8388608.0f + float(zero)); }
constant float by_16 = 1.0f / 16, by_256 = 1.0f / 256, by_4096 = 1.0f / 4096;

inline float signed_byte(uint v) { return number(v ^ 128, 255, 128); }
