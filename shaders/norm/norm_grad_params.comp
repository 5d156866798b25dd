// Backward: gradients of scale and bias from the partial sums of all batches and chunks; MEANS: of them, for the columns
// of one batch that are groups of their own, also what norm_grad_moments.comp gives.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/norm/norm_push.h"
#include "shaders/norm/norm.glsl"
#include "shaders/norm/sum_lanes.glsl"

layout(constant_id = 1) const bool MEANS = false;
layout(std430, set = 0, binding = 0) readonly buffer Partial { float partial[]; };
layout(std430, set = 0, binding = 0) readonly buffer PartialQuads { vec4 partial_quads[]; };
layout(std430, set = 0, binding = 1) readonly buffer Scale { float scale[]; };
layout(std430, set = 0, binding = 1) readonly buffer ScaleQuads { vec4 scale_quads[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Dscale { float dscale[]; };
layout(std430, set = 0, binding = 2) writeonly buffer DscaleQuads { vec4 dscale_quads[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Dbias { float dbias[]; };
layout(std430, set = 0, binding = 3) writeonly buffer DbiasQuads { vec4 dbias_quads[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Moments { float moments[]; };
layout(std430, set = 0, binding = 4) writeonly buffer MomentsQuads { vec4 moments_quads[]; };
COLUMNS_READ(partial)
COLUMNS_READ(scale)
COLUMNS_WRITE(dscale)
COLUMNS_WRITE(dbias)
COLUMNS_WRITE(moments)

void main() {
  const uint tile = flat_workgroup();
  if (tile >= p.col_tiles) return;  // the whole workgroup
  const uint lane = gl_LocalInvocationIndex;
  const uint lanes = 1u << p.lane_shift;
  const uint col = ((tile << p.lane_shift) + (lane & (lanes - 1u))) * (VECTOR ? 4u : 1u);
  Sums total = Sums(vec4(0.0), vec4(0.0));
  if (col < p.cols) {
    const uint parts = p.batches * p.chunks;
    for (uint i = lane >> p.lane_shift; i < parts; i += 128u >> p.lane_shift) {
      total.first += read_partial(i * p.cols + col);
      total.second += read_partial(partial_plane() + i * p.cols + col);
    }
  }
  total = sum_lanes(total, lanes);
  if (lane >= lanes || col >= p.cols) return;
  write_dbias(col, total.first);
  write_dscale(col, total.second);
  if (!MEANS) return;
  const vec4 factor = (p.has_scale != 0u ? read_scale(col) : vec4(1.0)) / float(p.rows);
  write_moments(col, total.first * factor);
  write_moments(p.cols + col, total.second * factor);
}
