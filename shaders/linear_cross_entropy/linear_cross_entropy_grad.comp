// A chunk of logits becomes the loss's gradient with respect to them, in place: dloss (softmax - target). Where they are
// capped, with respect to what they were before: x = cap tanh(z / cap) has the slope 1 - (x / cap)^2.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/linear_cross_entropy/linear_cross_entropy_push.h"
layout(std430, binding = 0) buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Labels { int labels[]; };
layout(std430, binding = 2) readonly buffer Order { uint order[]; };
layout(std430, binding = 3) readonly buffer LogSum { float log_sum[]; };
layout(std430, binding = 4) readonly buffer Dloss { float dloss[]; };

void main() {
  const uint i = flat_invocation();
  const uint at = i / p.columns;
  if (at >= min(p.rows, order[0])) return;
  const uint row = order[1 + at];
  const int label = labels[row];
  const bool valid = label >= 0 && label < int(p.vocabulary);
  const float hit = int(p.first + i - at * p.columns) == label ? 1.0 - p.smoothing : 0.0;
  const float target = hit + p.smoothing / float(p.vocabulary);
  float slope = exp_accurate(x[i] - log_sum[row]) - target;
  if (p.cap != 0.0) slope *= 1.0 - (x[i] / p.cap) * (x[i] / p.cap);
  x[i] = label == p.ignore_index ? 0.0 : valid ? dloss[row] * slope : nan();
}
