// Resizes images by nearest or bilinear sampling.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/resize/resize_push.h"
#include "shaders/resize/resize.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { float y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  uint rest = i / p.channels;
  const uint channel = i - rest * p.channels;
  const uint width = uint(p.out_size[1]);
  const Taps w = taps(1u, int(rest % width));
  rest /= width;
  const uint height = uint(p.out_size[0]);
  const Taps h = taps(0u, int(rest % height));
  const uint image = rest / height * uint(p.in_size[0]);

  const uint row0 = (image + uint(h.first)) * uint(p.in_size[1]);
  const float x00 = x[(row0 + uint(w.first)) * p.channels + channel];
  if (p.linear == 0u) {
    y[i] = x00;
    return;
  }
  const uint row1 = (image + uint(h.second)) * uint(p.in_size[1]);
  const float x01 = x[(row0 + uint(w.second)) * p.channels + channel];
  const float x10 = x[(row1 + uint(w.first)) * p.channels + channel];
  const float x11 = x[(row1 + uint(w.second)) * p.channels + channel];
  const float top = x00 * (1.0 - w.share) + x01 * w.share;
  const float bottom = x10 * (1.0 - w.share) + x11 * w.share;
  y[i] = top * (1.0 - h.share) + bottom * h.share;
}
