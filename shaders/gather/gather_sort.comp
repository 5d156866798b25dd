// The indices of gather in buckets, one for each slice that they name, in ascending order: what gather_sorted_sum needs.
// count: how many indices name a slice. scan: where buckets begin. place: indices into their buckets, in any order;
// beginnings become ends. sort: each bucket in order, short ones by one invocation, long ones by the workgroup.
//! variant i32_count : -DCOUNT
//! variant i32_scan : -DSCAN
//! variant i32_place : -DPLACE
//! variant i32_sort : -DSORT
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/gather/gather_sort_push.h"

#if defined(COUNT) || defined(PLACE)
layout(std430, set = 0, binding = 0) buffer Ends { uint ends[]; };
layout(std430, set = 0, binding = 1) readonly buffer Indices { int indices[]; };
#ifdef PLACE
layout(std430, set = 0, binding = 2) writeonly buffer Order { uint order[]; };
#endif

void main() {
  const uint j = flat_invocation();
  if (j >= p.index_count) return;
  int target = indices[j];
  if (target < 0) target += int(p.axis_size);
  target -= int(p.first);
  if (target < 0 || target >= int(p.rows)) return;
#ifdef COUNT
  atomicAdd(ends[target], 1u);
#else
  order[atomicAdd(ends[target], 1u)] = j;
#endif
}
#endif

#ifdef SCAN
layout(std430, set = 0, binding = 0) buffer Ends { uint ends[]; };
shared uint totals[128];

void main() {  // one workgroup; each invocation has a run of buckets
  const uint lane = gl_LocalInvocationIndex;
  const uint run = (p.rows + 127u) / 128u;
  const uint first = min(lane * run, p.rows), last = min(first + run, p.rows);
  uint total = 0u;
  for (uint i = first; i < last; ++i) total += ends[i];
  totals[lane] = total;
  barrier();
  uint at = 0u;
  for (uint i = 0u; i < lane; ++i) at += totals[i];
  for (uint i = first; i < last; ++i) {
    const uint count = ends[i];
    ends[i] = at;
    at += count;
  }
}
#endif

#ifdef SORT
layout(std430, set = 0, binding = 0) readonly buffer Ends { uint ends[]; };
layout(std430, set = 0, binding = 1) coherent buffer Order { uint order[]; };

const uint SHORT = 16u;  // the longest bucket of one invocation
shared uint starts[128];
shared uint lengths[128];

void in_order(uint a, uint b) {
  const uint x = order[a], y = order[b];
  if (x <= y) return;
  order[a] = y;
  order[b] = x;
}

void sort_short(uint start, uint length) {
  for (uint i = 1u; i < length; ++i) {
    const uint x = order[start + i];
    uint k = i;
    for (; k > 0u && order[start + k - 1u] > x; --k) order[start + k] = order[start + k - 1u];
    order[start + k] = x;
  }
}

void end_of_stage() {
  memoryBarrierBuffer();
  barrier();
}

// Bitonic, with all comparisons upwards: what lies behind the end counts as larger, and never moves.
void sort_long(uint start, uint length) {
  const uint lane = gl_LocalInvocationIndex;
  for (uint size = 2u; size < 2u * length; size *= 2u) {
    const uint pairs = (length + size - 1u) / size * (size / 2u);
    for (uint t = lane; t < pairs; t += 128u) {
      const uint block = t / (size / 2u) * size, offset = t % (size / 2u);
      const uint b = block + size - 1u - offset;
      if (b < length) in_order(start + block + offset, start + b);
    }
    end_of_stage();
    for (uint d = size / 4u; d > 0u; d /= 2u) {
      for (uint t = lane; t < pairs; t += 128u) {
        const uint a = t / d * 2u * d + t % d;
        if (a + d < length) in_order(start + a, start + a + d);
      }
      end_of_stage();
    }
  }
}

void main() {
  const uint lane = gl_LocalInvocationIndex;
  const uint row = flat_workgroup() * 128u + lane;
  uint start = 0u, length = 0u;
  if (row < p.rows) {
    start = row == 0u ? 0u : ends[row - 1u];
    length = ends[row] - start;
  }
  const bool is_short = length <= SHORT;
  if (is_short) sort_short(start, length);
  starts[lane] = start;
  lengths[lane] = is_short ? 0u : length;
  barrier();
  for (uint k = 0u; k < 128u; ++k) {
    if (lengths[k] != 0u) sort_long(starts[k], lengths[k]);  // the same for the whole workgroup
  }
}
#endif
