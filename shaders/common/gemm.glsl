// One blocked GEMM for matmul and for the implicit GEMMs of convolutions; the including kernel says where A and B are.
//
// Before the include: the push block `p` (GEMM_FIELDS first), the buffers, and
//   struct Row, Col            what is decoded once per row of A and per column of B
//   struct Ptr                 where inner element 0 of a row or column is in outer step t, and whether it exists
// After it the kernel defines
//   Row a_row(uint m); Ptr a_at(Row row, uint t); float a_load(Ptr ptr, uint c);
//   Col b_col(uint n); Ptr b_at(Col col, uint t); float b_load(Ptr ptr, uint c);
//   uint out_row(uint m);      address of C[m, 0], or kNowhere; C[m, n] stands n further
//   void out_store(uint address, uint n, float value);
// Rows >= p.m and columns >= p.n may be decoded and loaded (never out of bounds: clamp or answer 0); they are not stored.
// GEMM_SKIPS_OUTSIDE: Ptr of a row has `bool inside`, and outer steps in which no row of a tile is inside are left out.
// GEMM_QUADS: the kernel also defines a_load4 and b_load4(ptr, c, left), four elements from c on (0 beyond `left`), and
// inner is 1 outer step or a multiple of 4. GEMM_QUAD_COLUMNS: it defines b_columns(ptr, c), four columns from ptr's on.
// GEMM_VECTORS: the kernel also defines a_load4 and b_load4, four contiguous elements from where a_load and b_load find
// one; the host says where they may be used, and then rows and columns beyond p.m and p.n come in whole fours.
// GEMM_VECTOR_ROWS: only that of a, along k.
// GEMM_STORES_FOURS: it also defines out_store4(address, n, vec4) for four columns from n on, where p.n is a multiple of
// four; then addresses are, too.
// GEMM_TOUCHES: operands that lie across k are in memory, so that a tile may ask for the cache lines of coming steps;
// has_bias is never more than 1. GEMM_SMALLER_GOES_BY: neighbouring tiles of CPU devices share a panel of the larger
// operand.
// GEMM_SHUFFLE, GEMM_APART, GEMM_COOPMAT: which tile; none of them: in shared memory.
// The including kernel's main() calls gemm_place() and then gemm_tile().
#ifndef GRAFT_GEMM_GLSL
#define GRAFT_GEMM_GLSL
#extension GL_EXT_control_flow_attributes : require

const uint kNowhere = 0xffffffffu;

struct Place {
  bool valid;
  uint batch;
  uint split;
  uint copy;  // of the output, that the part writes
  uint m0;
  uint n0;
};

Row a_row(uint m);
Ptr a_at(Row row, uint t);
float a_load(Ptr ptr, uint c);
Col b_col(uint n);
Ptr b_at(Col col, uint t);
float b_load(Ptr ptr, uint c);
uint out_row(uint m);
void out_store(uint address, uint n, float value);

#ifdef GEMM_QUADS
vec4 a_load4(Ptr ptr, uint c, uint left);
vec4 b_load4(Ptr ptr, uint c, uint left);
#endif
#ifdef GEMM_QUAD_COLUMNS
vec4 b_columns(Ptr ptr, uint c);
#endif
#if defined(GEMM_VECTORS) || defined(GEMM_VECTOR_ROWS)
vec4 a_load4(Ptr ptr, uint c);
#endif
#ifdef GEMM_VECTORS
vec4 b_load4(Ptr ptr, uint c);
#endif

#ifdef GEMM_STORES_FOURS
void out_store4(uint address, uint n, vec4 value);
#endif

#if defined(GEMM_SHUFFLE)
#include "shaders/common/gemm_shuffle.glsl"
#elif defined(GEMM_APART)
#include "shaders/common/gemm_apart.glsl"
#elif defined(GEMM_COOPMAT)
#include "shaders/common/gemm_coopmat.glsl"
#else
#include "shaders/common/gemm_shared.glsl"
#endif
#include "shaders/common/index.glsl"

/// The last row of A and column of B that may be loaded.
uint last_row() { return p.m - (kAcrossA ? 4 : 1); }
uint last_column() { return p.n - (kAcrossB ? 4 : 1); }

/// Which tile of which problem this workgroup computes; not valid in the excess workgroups of a spread dispatch.
Place gemm_place() {
  Place place;
  uint id = flat_workgroup();
#if defined(GEMM_COOPMAT)
  // Bands of a few tiles along m, so that what runs at a time shares rows and columns alike.
  const uint kBand = 8;
  const uint tiles = p.tiles_m * p.tiles_n;
  const uint tile = id % tiles;
  id /= tiles;
  const uint first = tile / (kBand * p.tiles_n) * kBand;
  const uint height = min(p.tiles_m - first, kBand);
  const uint in_band = tile - first * p.tiles_n;
  const uint tile_m = first + in_band % height;
  const uint tile_n = in_band / height;
#elif defined(GEMM_SHUFFLE) || defined(GEMM_APART)
  // A CPU runs few workgroups at a time, in order: a panel of the larger operand stays in its nearest cache, while the
  // smaller operand streams by from the next one.
#ifdef GEMM_SMALLER_GOES_BY
  const bool along_m = p.m <= p.n;
#else
  const bool along_m = true;
#endif
  const uint inside = along_m ? p.tiles_m : p.tiles_n;
  const uint outside = along_m ? p.tiles_n : p.tiles_m;
  const uint first = id % inside;
  id /= inside;
  const uint second = id % outside;
  id /= outside;
  const uint tile_m = along_m ? first : second;
  const uint tile_n = along_m ? second : first;
#else
  const uint tile_n = id % p.tiles_n;
  id /= p.tiles_n;
  const uint tile_m = id % p.tiles_m;
  id /= p.tiles_m;
#endif
  place.batch = id % p.batches;
  place.copy = id / p.batches;
  place.split = place.copy + (p.splits >> 16);
  place.valid = place.split < (p.splits & 0xffffu);
  place.m0 = tile_m * kTileM;
  place.n0 = tile_n * kTileN;
  return place;
}

#endif
