// y = (x - mean) * rstd * scale + bias.
//! variant f32 :
//! variant f32_epilogue : -DEPILOGUE=6
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 0) readonly buffer XQuads { vec4 x_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 1) readonly buffer MeanQuads { vec4 mean_quads[]; };
layout(std430, set = 0, binding = 2) readonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 2) readonly buffer StatQuads { vec4 stat_quads[]; };
layout(std430, set = 0, binding = 3) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 3) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(std430, set = 0, binding = 4) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) readonly buffer BiasQuads { vec4 bias_quads[]; };
layout(std430, set = 0, binding = 5) writeonly buffer Y { float y[]; };
layout(std430, set = 0, binding = 5) writeonly buffer YQuads { vec4 y_quads[]; };
COLUMNS_READ(x)
STATISTIC_READ(mean)
STATISTIC_READ(stat)
COLUMNS_READ(scale)
COLUMNS_READ(bias)
COLUMNS_WRITE(y)

void main() {
  const ColumnWalk w = column_walk();
  if (!w.valid || w.begin >= w.end) return;
  const uint s = stat_index(w.batch * p.rows, w.col);  // rows of a batch share statistics
  const vec4 center = read_mean(s);
  const vec4 rstd = rstd_of(read_stat(s));
  const vec4 factor = p.has_scale != 0u ? read_scale(w.col) : vec4(1.0);
  const vec4 offset = p.has_bias != 0u ? read_bias(w.col) : vec4(0.0);
  for (uint row = w.begin; row < w.end; row += w.step) {
    const uint i = (w.batch * p.rows + row) * p.cols + w.col;
    precise vec4 value = (read_x(i) - center) * rstd * factor + offset;  // to the same bits, whatever stands around it
    if (VECTOR) value = finished4(value, i, w.col); else value.x = finished(value.x, i, w.col);
    write_y(i, value);
  }
}
