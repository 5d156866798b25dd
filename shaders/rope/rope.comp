// Rotary position embedding: pair i of every head turns by position * frequency[i]. An invocation takes one pair of one
// token through all heads, so that sine and cosine are computed once. With the opposite direction it is its gradient.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/step_state.h"
#include "shaders/rope/rope_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"

layout(constant_id = 0) const bool INTERLEAVED = false;  // pairs (2i, 2i + 1), else (i, i + half of what turns)
layout(constant_id = 1) const bool FROM_STEP = false;    // positions count from the step state's

layout(binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer Positions { int positions[]; };
layout(binding = 3) readonly buffer Frequencies { float frequencies[]; };
layout(binding = 4) writeonly buffer Y { float y[]; };

float frequency(uint i) {
  if (p.has_frequencies != 0u) return frequencies[i];
  return pow_accurate(p.theta, -(float(i) / float(p.rotated)));
}

float position(uint token) {
  if (p.position_words != 0u) return float(positions[token % p.position_words]);
  return float(token % p.sequence + (FROM_STEP ? state.position : 0u));
}

void main() {
  if (flat_workgroup() > (p.tokens * p.pairs - 1u) / 128u) return;
  const uint id = flat_invocation();
  if (id >= p.tokens * p.pairs) return;
  const uint token = id / p.pairs;
  const uint pair = id % p.pairs;
  const bool turns = pair < p.rotated;
  float c = 1.0;
  float s = 0.0;
  if (turns) {
    const float angle = position(token) * frequency(pair);
    c = cos_accurate(angle) * p.magnitude;
    s = sin_accurate(angle) * p.magnitude * p.direction;
  }
  const bool neighbours = INTERLEAVED || !turns;
  const uint first = neighbours ? 2u * pair : pair;
  const uint second = first + (neighbours ? 1u : p.rotated);
  for (uint head = 0u; head < p.heads; ++head) {
    const uint base = (token * p.heads + head) * 2u * p.pairs;
    const float a = x[base + first];
    const float b = x[base + second];
    y[base + first] = turns ? a * c - b * s : a;
    y[base + second] = turns ? b * c + a * s : b;
  }
}
