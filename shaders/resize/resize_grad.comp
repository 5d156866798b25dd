// The gradient of resizing: every source element adds up, in order, what resized positions took of it.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/resize/resize_push.h"
#include "shaders/resize/resize.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dx { float dx[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  uint rest = i / p.channels;
  const uint channel = i - rest * p.channels;
  const uint width = uint(p.in_size[1]);
  const int w = int(rest % width);
  rest /= width;
  const uint height = uint(p.in_size[0]);
  const int h = int(rest % height);
  const uint image = rest / height * uint(p.out_size[0]);

  const ivec2 rows = takers(0u, h);
  const ivec2 cols = takers(1u, w);
  float sum = 0.0;
  for (int row = rows.x; row <= rows.y; ++row) {
    const float row_weight = weight(0u, row, h);
    if (row_weight == 0.0) continue;
    float row_sum = 0.0;
    for (int col = cols.x; col <= cols.y; ++col) {
      const float col_weight = weight(1u, col, w);
      if (col_weight == 0.0) continue;
      const uint pixel = (image + uint(row)) * uint(p.out_size[1]) + uint(col);
      row_sum += col_weight * dy[pixel * p.channels + channel];
    }
    sum += row_weight * row_sum;
  }
  dx[i] = sum;
}
