// Lists the rows whose label is not the ignored one, in order: how many, then which. One workgroup.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/linear_cross_entropy/linear_cross_entropy_rows_push.h"

layout(std430, binding = 0) readonly buffer Labels { int labels[]; };
layout(std430, binding = 1) writeonly buffer Order { uint order[]; };
layout(std430, binding = 2) writeonly buffer Loss { float loss[]; };  // any buffers where nothing is cleared
layout(std430, binding = 3) writeonly buffer LogSum { float log_sum[]; };

shared uint counts[128];

void main() {
  const uint lane = gl_LocalInvocationIndex;
  uint before = 0;
  for (uint first = 0; first < p.rows; first += 128) {
    const uint row = first + lane;
    const bool exists = row < p.rows;
    bool listed = exists;
    if (exists && p.keep_all == 0) listed = labels[row] != p.ignore_index;
    barrier();  // the counts before have been read
    counts[lane] = listed ? 1 : 0;
    for (uint step = 1; step < 128; step *= 2) {
      barrier();
      const uint below = lane >= step ? counts[lane - step] : 0;
      barrier();
      counts[lane] += below;
    }
    barrier();
    if (listed) order[before + counts[lane]] = row;
    if (exists && !listed && p.clear != 0) {
      loss[row] = 0.0;
      log_sum[row] = 0.0;
    }
    before += counts[127];
  }
  if (lane == 0) order[0] = before;
}
