// y = (x - mean) * rstd * scale + bias.
//! variant f32 :
//! variant f32_epilogue : -DEPILOGUE=6
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/chain/epilogue.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 2) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 3) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 4) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Y { float y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.batches * p.rows * p.cols) return;
  const uint row = i / p.cols;
  const uint col = i - row * p.cols;
  const uint s = stat_index(row, col);
  float value = (x[i] - mean[s]) * rstd_of(stat[s]);
  if (p.has_scale != 0u) value *= scale[col];
  if (p.has_bias != 0u) value += bias[col];
  y[i] = finished(value, i, col);
}
