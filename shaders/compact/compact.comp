// Where running totals rise above 0, 1, 2, ...: by halving, so that each place is found by itself.
//! variant i32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/compact/compact_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Totals { int totals[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { int y[]; };

void main() {
  const uint place = flat_invocation();
  if (place >= p.count) return;
  uint low = 0u, high = p.count;
  while (low < high) {
    const uint middle = low + (high - low) / 2u;
    if (totals[middle] > int(place)) {
      high = middle;
    } else {
      low = middle + 1u;
    }
  }
  y[place] = low < p.count ? int(low) : 0;
}
