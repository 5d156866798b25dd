// Second pass of mean and variance: one workgroup combines the chunks and columns of a group, or the chunks of a few
// columns that are groups of their own.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/welford.glsl"

layout(std430, set = 0, binding = 0) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 0) readonly buffer PartialQuads { vec4 partial_quads[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Mean { float mean[]; };
layout(std430, set = 0, binding = 1) writeonly buffer MeanQuads { vec4 mean_quads[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Stat { float stat[]; };
layout(std430, set = 0, binding = 2) writeonly buffer StatQuads { vec4 stat_quads[]; };
COLUMNS_READ(partial)
COLUMNS_WRITE(mean)
COLUMNS_WRITE(stat)

void main() {
  const bool columns = p.group_cols == 1u;
  const uint lane = gl_LocalInvocationIndex;
  const uint results = columns ? 1u << p.lane_shift : 1u;  // lanes of the workgroup that end with a result
  const uint per_batch = columns ? p.col_tiles : p.groups;
  const uint flat_group = flat_workgroup();
  if (flat_group >= p.batches * per_batch) return;  // the whole workgroup
  const uint batch = flat_group / per_batch;
  const uint part = flat_group % per_batch;
  const uint first = columns ? (part * results + lane % results) * (VECTOR ? 4u : 1u) : part * p.group_cols;
  Moments m = Moments(0.0, vec4(0.0), vec4(0.0));
  const uint end = first < p.cols ? p.chunks * p.group_cols : 0u;
  for (uint n = lane / results; n < end; n += 128u / results) {
    const uint chunk = n / p.group_cols;
    const uint i = (batch * p.chunks + chunk) * p.cols + first + n % p.group_cols;
    const uint j = partial_plane() + i;
    m = combine(m, columns ? Moments(float(rows_in(chunk)), read_partial(i), read_partial(j))
                           : Moments(float(rows_in(chunk)), vec4(partial[i]), vec4(partial[j])));
  }
  m = combine_lanes(m, results);
  if (lane >= results || end == 0u) return;
  const vec4 variance = m.m2 / m.n;
  const vec4 deviation = p.stat_is_variance != 0u ? variance : inversesqrt(variance + p.epsilon);
  if (columns) {
    write_mean(batch * p.cols + first, m.mean);
    write_stat(batch * p.cols + first, deviation);
  } else {
    mean[flat_group] = m.mean.x;
    stat[flat_group] = deviation.x;
  }
}
