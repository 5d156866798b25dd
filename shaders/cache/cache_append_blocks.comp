// Rows of x take their places in a cache of q8_0 (blocks: schema/MODEL_FORMAT.md), from their place on; those past its
// end are dropped. Two blocks are 17 words, and one invocation's: blocks share words.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "shaders/cache/cache_append_blocks_push.h"
#include "shaders/cache/cache_base.h"
layout(local_size_x = 32) in;
#include "shaders/common/index.glsl"
#include "shaders/common/nan.glsl"
#include "shaders/common/round16.glsl"

layout(binding = 0) readonly buffer State { uint state_words[]; };
#include "shaders/cache/places.glsl"
layout(binding = 1) buffer Cache { uint cache[]; };
layout(binding = 2) readonly buffer X { vec4 x[]; };

uint scale;     // the block's, as 16 bits
uint codes[8];  // four to a word

// As quantize(DType::q8_0): the largest magnitude over 127. What is not finite, or too large, leaves no number finite.
void read_block(uint block) {
  vec4 largest = vec4(0.0);
  bool finite = true;
  [[unroll]] for (uint q = 0u; q < 8u; ++q) {
    const vec4 four = x[block * 8u + q];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) finite = finite && is_finite(four[i]);
    largest = max(largest, abs(four));
  }
  const float top = round_f16(max(max(largest.x, largest.y), max(largest.z, largest.w)) / 127.0);
  scale = !finite ? 0x7e00u : (is_inf(top) ? 0x7c00u : packHalf2x16(vec2(top, 0.0)) & 0xffffu);
  const float kept = unpackHalf2x16(scale).x;  // 0 where the device has no halves this small
  const float inverse = kept > 0.0 && finite && !is_inf(top) ? 1.0 / kept : 0.0;
  [[unroll]] for (uint q = 0u; q < 8u; ++q) {
    const ivec4 code = ivec4(clamp(roundEven(x[block * 8u + q] * inverse), vec4(-127.0), vec4(127.0)));
    codes[q] = uint(code.x & 255) | uint(code.y & 255) << 8 | uint(code.z & 255) << 16 | uint(code.w) << 24;
  }
}

void main() {
  const uint each = p.tokens * p.row / 2u + 1u;  // invocations of an item
  const uint item = flat_invocation() / each;
  if (item >= p.batch) return;
  const uint begin = place_position(item);
  const uint base = p.window == 0u ? 0u : cache_base(max(place_furthest(item), begin), p.window);
  const uint position = begin - base;  // beyond all places where it lies before them
  if (position >= p.capacity) return;
  const uint first = (place_slot(item) * p.capacity + position) * p.row;  // block of the cache
  const uint count = min(p.tokens, p.capacity - position) * p.row;
  const uint even = 2u * (first / 2u + flat_invocation() % each);
  if (even >= first + count) return;
  const uint at = even / 2u * 17u;
  const uint from = item * p.tokens * p.row;  // block of x
  uint shared_word = 0u;
  if (even >= first) {
    read_block(from + even - first);
    cache[at] = scale | codes[0] << 16;
    [[unroll]] for (uint i = 1u; i < 8u; ++i) cache[at + i] = codes[i - 1u] >> 16 | codes[i] << 16;
    shared_word = codes[7] >> 16;
  } else {
    shared_word = cache[at + 8u] & 0xffffu;
  }
  if (even + 1u < first + count) {
    read_block(from + even + 1u - first);
    shared_word |= scale << 16;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) cache[at + 9u + i] = codes[i];
  } else {
    shared_word |= cache[at + 8u] & 0xffff0000u;
  }
  cache[at + 8u] = shared_word;
}
