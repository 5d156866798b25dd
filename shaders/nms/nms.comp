// Of each class the boxes with the highest scores, without those that overlap a better one: a workgroup takes the best
// box that is left, again and again. Each lane holds a list of what is left among every 128th box, which shrinks in
// place, so that a round costs only what earlier rounds have left. Of equal scores the first box goes first.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/nan.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const bool CENTRED = false;  // x and y of the middle, width, height; else two corners: y, x, y, x
layout(constant_id = 1) const bool LIMITED = false;  // scores are to be above least_score
#include "shaders/common/index.glsl"
#include "shaders/nms/nms_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Boxes { float boxes[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scores { float scores[]; };
layout(std430, set = 0, binding = 2) buffer Left { uint left[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Y { int y[]; };

shared uint shared_key[128];
shared uint shared_box[128];

// An unsigned number in the order of the scores, never 0.
uint key_of(float value) {
  const uint bits = floatBitsToUint(value);
  if ((bits & 0x7fffffffu) == 0u) return 0x80000000u;  // either zero
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

// top, left, bottom, right
vec4 corners(uint batch, uint box) {
  const uint at = (batch * p.boxes + box) * 4u;
  const vec4 v = vec4(boxes[at], boxes[at + 1u], boxes[at + 2u], boxes[at + 3u]);
  if (CENTRED) {
    const vec2 extent = v.wz * 0.5;
    return vec4(v.yx - extent, v.yx + extent);
  }
  return vec4(min(v.xy, v.zw), max(v.xy, v.zw));
}

float area(vec4 box) { return (box.z - box.x) * (box.w - box.y); }

bool overlap(vec4 a, vec4 b) {
  const vec2 common_extent = min(a.zw, b.zw) - max(a.xy, b.xy);
  if (!(common_extent.x > 0.0 && common_extent.y > 0.0)) return false;
  const float both = common_extent.x * common_extent.y;
  const float all = area(a) + area(b) - both;
  return all > 0.0 && both > p.most_overlap * all;
}

void prefer(uint key, uint box, inout uint best_key, inout uint best_box) {
  if (key > best_key || (key == best_key && box < best_box)) {
    best_key = key;
    best_box = box;
  }
}

// The best of all lanes; key 0 where no box is left.
void best_of_all(inout uint key, inout uint box) {
  const uint lane = gl_LocalInvocationIndex;
  barrier();
  shared_key[lane] = key;
  shared_box[lane] = box;
  for (uint half_size = 64u; half_size > 0u; half_size /= 2u) {
    barrier();
    if (lane < half_size) {
      prefer(shared_key[lane + half_size], shared_box[lane + half_size], key, box);
      shared_key[lane] = key;
      shared_box[lane] = box;
    }
  }
  barrier();
  key = shared_key[0];
  box = shared_box[0];
}

void main() {
  const uint group = flat_workgroup();
  if (group >= p.groups) return;  // the whole workgroup
  const uint lane = gl_LocalInvocationIndex;
  const uint batch = group / p.classes;
  const uint first = group * p.boxes;
  uint count = 0u, key = 0u, box = 0u, kept = 0u;
  for (uint i = lane; i < p.boxes; i += 128u) {
    const float score = scores[first + i];
    if (is_nan(score) || (LIMITED && !(score > p.least_score))) continue;
    left[first + lane + 128u * count] = i;
    ++count;
    prefer(key_of(score), i, key, box);
  }
  while (kept < p.places) {
    best_of_all(key, box);
    if (key == 0u) break;
    const uint best = box;
    if (lane == 0u) y[group * p.places + kept] = int(best);
    ++kept;
    const vec4 chosen = corners(batch, best);
    uint still = 0u;
    key = 0u;
    for (uint j = 0u; j < count; ++j) {
      const uint i = left[first + lane + 128u * j];
      if (i == best || overlap(chosen, corners(batch, i))) continue;
      left[first + lane + 128u * still] = i;
      ++still;
      prefer(key_of(scores[first + i]), i, key, box);
    }
    count = still;
  }
  for (uint i = kept + lane; i < p.places; i += 128u) y[group * p.places + i] = -1;
}
