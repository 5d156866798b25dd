// Keys and values of forward attention, four neighbours at a time: k_at(i) is elements 4 i to 4 i + 3 of all keys. In the
// variants with -DBLOCKS they are blocks of q8_0 (schema/MODEL_FORMAT.md): a cache.
#ifdef BLOCKS
layout(binding = 1) readonly buffer K { uint k[]; };
layout(binding = 2) readonly buffer V { uint v[]; };

#define BLOCK_READER(name)                                                                \
  vec4 name##_at(uint i) {                                                                \
    const uint start = 34u * (i / 8u);                                                    \
    const uint at = start + 2u + 4u * (i % 8u);                                           \
    const bool even = (start & 2u) == 0u;                                                 \
    const vec2 scales = unpackHalf2x16(name[start >> 2]);                                 \
    const int low = int(name[at >> 2]);                                                   \
    const int bits = even ? int(uint(low) >> 16 | name[(at >> 2) + 1u] << 16) : low;      \
    return (even ? scales.x : scales.y) *                                                 \
           vec4((bits << 24) >> 24, (bits << 16) >> 24, (bits << 8) >> 24, bits >> 24);   \
  }
BLOCK_READER(k)
BLOCK_READER(v)
#else
layout(binding = 1) readonly buffer K { vec4 k[]; };
layout(binding = 2) readonly buffer V { vec4 v[]; };
#define k_at(i) k[i]
#define v_at(i) v[i]
#endif
