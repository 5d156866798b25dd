// What forward and backward attention share: tiles of 32 rows by 32 keys, which keys a row sees, products of tiles.
// Invocation (ty, tx) = (index / 8, index % 8) holds the scores of rows ty and ty + 16 with keys tx, tx + 8, +16, +24;
// in a slab of 32 elements of a head it holds elements 4 tx to 4 tx + 3.
#ifndef GRAFT_ATTENTION_GLSL
#define GRAFT_ATTENTION_GLSL
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/attention/attention_heads.glsl"

layout(constant_id = 0) const uint SLABS = 1;        // of 32 elements in a head
layout(constant_id = 1) const bool VECTORS = false;  // dim is a multiple of 4

const uint kTile = 32u;
const uint kVectors = 8u;       // of a row of a slab
const float kMasked = -3.0e38;  // a score that no product reaches

#ifdef ATTENTION_COOPMAT
#include "shaders/attention/attention_coopmat.glsl"
#else
const uint kRow = kVectors + 1u;  // from a row of a tile to the next, which begins in another bank
#define TILE_VECTOR vec4
shared vec4 left_tile[kTile * kRow];
shared vec4 right_tile[kTile * kRow];
#endif
const uint kWeightRow = kTile + 1u;
shared float weights[kTile * kWeightRow];  // [row][key]

void set_weight(uint row, uint key, float weight) {
  weights[row * kWeightRow + key] = weight;
#ifdef ATTENTION_COOPMAT
  half_weights[row * 4u * kRow + key] = HALF(before_half(weight));
#endif
}

uint tx() { return gl_LocalInvocationIndex % 8u; }
uint ty() { return gl_LocalInvocationIndex / 8u; }

// Elements d to d + 3 of the head that starts at `base`, zeros past its end.
#define HEAD_LOADER(name)                                      \
  vec4 load_##name(uint base, uint d) {                        \
    if (d >= p.dim) return vec4(0.0);                          \
    if (VECTORS) return name##4[(base + d) / 4u];              \
    vec4 v = vec4(name##1[base + d], 0.0, 0.0, 0.0);           \
    if (d + 1u < p.dim) v.y = name##1[base + d + 1u];          \
    if (d + 2u < p.dim) v.z = name##1[base + d + 2u];          \
    if (d + 3u < p.dim) v.w = name##1[base + d + 3u];          \
    return v;                                                  \
  }

#define HEAD_STORER(name)                                      \
  void store_##name(uint base, uint d, vec4 v) {               \
    if (d >= p.dim) return;                                    \
    if (VECTORS) {                                             \
      name##4[(base + d) / 4u] = v;                            \
      return;                                                  \
    }                                                          \
    for (uint i = 0u; i < 4u && d + i < p.dim; ++i) name##1[base + d + i] = v[i]; \
  }

// Fills a tile with slab `slab` of 32 rows or keys from `first` on; those past the end are zeros.
#define FILL_TILE(tile, name, base_of, h, first, count, slab)                                          \
  for (uint i = gl_LocalInvocationIndex; i < kTile * kVectors; i += 128u) {                            \
    const uint at = (first) + i / kVectors;                                                            \
    tile[i / kVectors * kRow + i % kVectors] = TILE_VECTOR(                                            \
        at < (count) ? load_##name(base_of(h, at), (slab) * kTile + (i % kVectors) * 4u) : vec4(0.0)); \
  }

#ifdef ATTENTION_COOPMAT
// Adds the products of two rows of the left tile with four of the right one.
void multiply_tiles(inout vec4 top, inout vec4 bottom) {
  rows_by_rows();
  for (uint c = 0; c < 4u; ++c) {
    top[c] += products[ty() * kTile + tx() + 8u * c];
    bottom[c] += products[(ty() + 16u) * kTile + tx() + 8u * c];
  }
}

// Adds two rows of the weights times the right tile, four elements of them.
void add_weighted(inout vec4 upper, inout vec4 lower) {
  weights_by_right();
  for (uint i = 0; i < 4u; ++i) {
    upper[i] += products[ty() * kTile + tx() * 4u + i];
    lower[i] += products[(ty() + 16u) * kTile + tx() * 4u + i];
  }
}

// Adds two columns of the weights times the left tile.
void add_columns(inout vec4 upper, inout vec4 lower) {
  weights_by_left();
  for (uint i = 0; i < 4u; ++i) {
    upper[i] += products[ty() * kTile + tx() * 4u + i];
    lower[i] += products[(ty() + 16u) * kTile + tx() * 4u + i];
  }
}
#else
// Adds two rows of the weights times the right tile, four elements of them.
void add_weighted(inout vec4 upper, inout vec4 lower) {
  for (uint key = 0u; key < kTile; ++key) {
    const vec4 value = right_tile[key * kRow + tx()];
    upper += weights[ty() * kWeightRow + key] * value;
    lower += weights[(ty() + 16u) * kWeightRow + key] * value;
  }
}

// Adds two columns of the weights times the left tile.
void add_columns(inout vec4 upper, inout vec4 lower) {
  for (uint row = 0u; row < kTile; ++row) {
    const vec4 value = left_tile[row * kRow + tx()];
    upper += weights[row * kWeightRow + ty()] * value;
    lower += weights[row * kWeightRow + ty() + 16u] * value;
  }
}

// Adds the products of two rows of the left tile with four of the right one.
void multiply_tiles(inout vec4 top, inout vec4 bottom) {
  for (uint i = 0u; i < kVectors; ++i) {
    const vec4 a = left_tile[ty() * kRow + i];
    const vec4 b = left_tile[(ty() + 16u) * kRow + i];
    for (uint c = 0u; c < 4u; ++c) {
      const vec4 k = right_tile[(tx() + 8u * c) * kRow + i];
      top[c] += dot(a, k);
      bottom[c] += dot(b, k);
    }
  }
}
#endif

// Whether a row sees a key; `row` and `key` may lie past the end. Negative sequences are padding.
bool sees(uint row, uint key, int offset, int row_sequence, int key_sequence) {
  if (row >= row_count() || key >= p.keys) return false;
  const int ahead = int(key) - (int(row / p.group) + offset);
  if (p.causal != 0u && ahead > 0) return false;
  if (p.window != 0 && abs(ahead) >= p.window) return false;
  return p.has_sequences == 0u || (row_sequence >= 0 && row_sequence == key_sequence);
}

// Tiles [x, y) of keys that some row of the tile sees.
uvec2 key_tile_range(uint row_tile, int offset) {
  const uvec2 keys = keys_of_rows(row_tile * kTile, kTile, offset);
  return uvec2(keys.x / kTile, (keys.y + kTile - 1u) / kTile);
}

// Tiles [x, y) of rows that see some key of the tile.
uvec2 row_tile_range(uint key_tile, int offset) {
  const uvec2 rows = rows_of_keys(key_tile * kTile, kTile, offset);
  return uvec2(rows.x / kTile, (rows.y + kTile - 1u) / kTile);
}

// All that is shared is a multiple of 16 bytes long: matrices are loaded from multiples of 16 bytes, and a compiler may
// put what is shared in any order. With a single number here an H100 (driver 580.159) multiplied other numbers.
shared uvec4 last_seen_tile;

// Whether any invocation says that it sees something of a tile; all must call it. `tile` differs from one call to the
// next, and from 0xffffffff.
bool any_sees(bool mine, uint tile) {
  if (mine) last_seen_tile.x = tile;
  barrier();
  // One that is slow may find the next tile's number here, but only where this tile was left out by all.
  return last_seen_tile.x == tile;
}

// A product of query and key as a score.
float score(float product) {
  const float s = product * p.scale;
  return p.softcap != 0.0 ? p.softcap * tanh_accurate(s / p.softcap) : s;
}

// d score / d product.
float score_slope(float s) {
  const float ratio = p.softcap != 0.0 ? s / p.softcap : 0.0;
  return p.scale * (1.0 - ratio * ratio);
}

#endif
