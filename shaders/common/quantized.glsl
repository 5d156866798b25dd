// Reads a weight that may be quantized (blocks: schema/MODEL_FORMAT.md) or f32, four neighbours of a row at a time.
// The including kernel declares `readonly buffer W { uint w[]; }` before.
#ifndef GRAFT_QUANTIZED_GLSL
#define GRAFT_QUANTIZED_GLSL

layout(constant_id = 4) const uint kFormat = 0;  // graft::DType's number; 0: f32
const uint kQ8_0 = 5;
const uint kQ4_0 = 6;
const uint kQ4_1 = 7;
const uint kQ5_0 = 8;
const uint kQ5_1 = 9;
const uint kQ4_k = 10;
const uint kQ5_k = 11;
const uint kQ6_k = 12;

/// The 32 bits at an even byte offset; reads no word that holds none of them.
uint bits_at(uint offset) {
  const uint low = w[offset >> 2];
  const uint high = w[(offset + 3) >> 2];
  return (offset & 2) == 0 ? low : (low >> 16) | (high << 16);
}

float half_at(uint offset) {
  const vec2 pair = unpackHalf2x16(w[offset >> 2]);
  return (offset & 2) == 0 ? pair.x : pair.y;
}

vec4 unsigned_bytes(uint bits) { return vec4(bits & 255u, (bits >> 8) & 255u, (bits >> 16) & 255u, bits >> 24); }

vec4 signed_bytes(uint bits) {
  const int x = int(bits);
  return vec4((x << 24) >> 24, (x << 16) >> 24, (x << 8) >> 24, x >> 24);
}

/// Four bits, one to bit 4 of each byte.
uint fifth_bits(uint bits) {
  return (bits & 1u) << 4 | (bits & 2u) << 11 | (bits & 4u) << 18 | (bits & 8u) << 25;
}

/// Codes i .. i + 3 of a block of 32 whose halves of bytes begin at `offset`.
uint half_bytes(uint offset, uint i) { return (bits_at(offset + (i & 15u)) >> ((i & 16u) >> 2)) & 0x0f0f0f0fu; }

/// (scale, min) number j of the 12 bytes at `offset`, a multiple of 4.
uvec2 scale_min(uint offset, uint j) {
  const uint at = offset >> 2;
  const uint shift = 8 * (j & 3u);
  const uint a = w[at] >> shift;
  const uint b = w[at + 1] >> shift;
  if (j < 4) return uvec2(a & 63u, b & 63u);
  const uint c = w[at + 2] >> shift;
  return uvec2((c & 15u) | ((a >> 6) & 3u) << 4, ((c >> 4) & 15u) | ((b >> 6) & 3u) << 4);
}

vec4 small_block(uint block, uint i) {
  if (kFormat == kQ8_0) return half_at(34 * block) * signed_bytes(bits_at(34 * block + 2 + i));
  if (kFormat == kQ4_0) return half_at(18 * block) * (unsigned_bytes(half_bytes(18 * block + 2, i)) - 8.0);
  if (kFormat == kQ5_0) {
    const uint q = half_bytes(22 * block + 6, i) | fifth_bits(bits_at(22 * block + 2) >> i);
    return half_at(22 * block) * (unsigned_bytes(q) - 16.0);
  }
  const uint start = (kFormat == kQ4_1 ? 20 : 24) * block;
  const vec2 scales = unpackHalf2x16(w[start >> 2]);
  uint q = half_bytes(start + (kFormat == kQ4_1 ? 4 : 8), i);
  if (kFormat == kQ5_1) q |= fifth_bits(w[(start >> 2) + 1] >> i);
  return scales.x * unsigned_bytes(q) + scales.y;
}

vec4 large_block(uint block, uint i) {
  const uint group = i >> 5;
  const uint l = i & 31u;
  if (kFormat == kQ6_k) {
    const uint start = 210 * block;
    const uint k = group & 3u;
    const uint low = bits_at(start + 64 * (i >> 7) + 32 * (k & 1u) + l) >> (2 * (k & 2u));
    const uint high = bits_at(start + 128 + 32 * (i >> 7) + l) >> (2 * k);
    const uint scale = bits_at(start + 192 + ((i >> 4) & 14u)) >> (8 * ((i >> 4) & 1u));
    const float s = half_at(start + 208) * float((int(scale) << 24) >> 24);
    return s * (unsigned_bytes((low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4) - 32.0);
  }
  const uint start = (kFormat == kQ4_k ? 144 : 176) * block;
  const vec2 scales = unpackHalf2x16(w[start >> 2]);
  const vec2 s = scales * vec2(scale_min(start + 4, group));
  const uint codes = start + (kFormat == kQ4_k ? 16 : 48) + 32 * (group >> 1) + l;
  uint q = (w[codes >> 2] >> (4 * (group & 1u))) & 0x0f0f0f0fu;
  if (kFormat == kQ5_k) q |= ((w[(start + 16 + l) >> 2] >> group) & 0x01010101u) << 4;
  return s.x * unsigned_bytes(q) - s.y;
}

/// Elements e .. e + 3 of the whole weight; e is a multiple of 4. f32: of a row with `left` elements from e on (others
/// are 0), and e may be any number.
vec4 weight4(uint e, uint left) {
  if (kFormat == 0) {
    vec4 x = vec4(0.0);
    x.x = uintBitsToFloat(w[e]);
    if (left > 1) x.y = uintBitsToFloat(w[e + 1]);
    if (left > 2) x.z = uintBitsToFloat(w[e + 2]);
    if (left > 3) x.w = uintBitsToFloat(w[e + 3]);
    return x;
  }
  return kFormat >= kQ4_k ? large_block(e >> 8, e & 255u) : small_block(e >> 5, e & 31u);
}

float weight(uint e) {
  if (kFormat == 0) return uintBitsToFloat(w[e]);
  const vec4 x = weight4(e & ~3u, 4);
  return (e & 2u) == 0 ? ((e & 1u) == 0 ? x.x : x.y) : ((e & 1u) == 0 ? x.z : x.w);
}

#endif
