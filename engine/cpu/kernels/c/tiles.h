// A product of packed weights with many rows of activations, computed by AMX, for one weight type.
// It gives the same bits as the product of the type for AVX-512. Besides what product.h needs, the
// file that includes this one defines
//   NAME_unpack      unpacks a block of a group
//
// Tiles hold integers as bfloat16, which has 8 significant bits, and products are added in
// float32. An activation of 16 bits is the sum of two bfloat16, of which the high one is a
// multiple of 256. All sums that the processor computes are exact except the last, so the sum of a
// block is the integer that other kernels compute, rounded once to float32, as they round it:
//   - the sum of the products with high parts is a multiple of 256 below 2³², and so exact;
//   - the sum of the products with low parts is below 2²⁴, and so exact;
//   - the processor adds the second sum to the first with one rounding: TDPBF16PS adds the products
//     of a row with a column before it adds them to the tile.
// Products of bytes (TDPBSSD) would need a tile for each part, and three instructions per result to
// join and to convert them. It takes as long to store a tile as to multiply one.

// tile_product multiplies MAX_TILES tiles at a time with GROUPS groups of weights.
void LEVEL(PART(tile_product))(const struct product_args *a) {
  struct tile_memory *memory = a->memory;
  const int64_t rows = a->tile_rows, tiles = (a->rows + rows - 1) / rows;
  const int64_t bytes = a->tile_bytes;
  configure(rows, SCALES);
  ROLLED for (int64_t first = 0; first < tiles; first += MAX_TILES) {
    const int64_t n = tiles - first < MAX_TILES ? tiles - first : MAX_TILES;
    ROLLED for (int64_t group = 0; group < a->groups; group += GROUPS) {
      const int64_t groups = a->groups - group < GROUPS ? a->groups - group : GROUPS;
      ROLLED for (int64_t t = 0; t < n; t++) {
        ROLLED for (int i = 0; i < GROUPS * TILE_ROWS; i++) memory->acc[t][0][i] = splat(0);
      }
      ROLLED for (int64_t from = 0; from < a->blocks; from += SLICE) {
        const int64_t blocks = a->blocks - from < SLICE ? a->blocks - from : SLICE;
        ROLLED for (int64_t g = 0; g < groups; g++) {
          const uint8_t *w = a->w + (group + g) * GROUP_BYTES(a->blocks);
          ROLLED for (int64_t k = 0; k < blocks; k++) PART(unpack)(&memory->unpacked[g][k], w, a->blocks, from + k);
        }
        ROLLED for (int64_t t = 0; t < n; t++) {
          const uint8_t *x = (const uint8_t *)a->x + ((first + t) * a->blocks + from) * bytes;
          ROLLED for (int64_t g = 0; g < groups; g++) {
            if (bytes == TILE_BYTES(2)) {
              SLICE_OF(2, SCALES, MINIMA)(memory->acc[t][g], x, memory->unpacked[g], blocks * SCALES, rows);
            } else {
              SLICE_OF(1, SCALES, MINIMA)(memory->acc[t][g], x, memory->unpacked[g], blocks * SCALES, rows);
            }
          }
        }
      }
      ROLLED for (int64_t t = 0; t < n; t++) {
        const int64_t from = (first + t) * rows, to = from + rows < a->rows ? from + rows : a->rows;
        ROLLED for (int64_t r = from; r < to; r++) {
          float *out = a->out + a->at[r] + 16 * group;
          ROLLED for (int64_t g = 0; g < groups; g++, out += 16) {
            f32v y = memory->acc[t][g][r - from];
            if (a->factors) y = fma_v(y, splat(a->factors[r]), LOAD(f32v, out));
            STORE(f32v, out, y);
          }
        }
      }
    }
  }
  _tile_release();
}
