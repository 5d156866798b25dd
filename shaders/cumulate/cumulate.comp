// Running sums and products along an axis. SERIAL: an invocation walks a line. Otherwise a workgroup does, 128 elements
// at a time: each run is scanned in shared memory by doubling, on top of what came before it.
//! variant f32 : -DELEMENT=float
//! variant i32 : -DELEMENT=int
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
layout(constant_id = 0) const bool PRODUCT = false;
layout(constant_id = 1) const bool EXCLUSIVE = false;
layout(constant_id = 2) const bool REVERSE = false;
layout(constant_id = 3) const bool SERIAL = false;
#include "shaders/common/index.glsl"
#include "shaders/cumulate/cumulate_push.h"

layout(std430, set = 0, binding = 0) readonly buffer X { ELEMENT x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { ELEMENT y[]; };

shared ELEMENT run[128];

ELEMENT joined(ELEMENT a, ELEMENT b) { return PRODUCT ? a * b : a + b; }

uint place(uint line, uint i) {
  const uint outer = line / p.inner;
  const uint along = REVERSE ? p.size - 1u - i : i;
  return (outer * p.size + along) * p.inner + (line - outer * p.inner);
}

void serial(uint line) {
  ELEMENT total = ELEMENT(0);
  if (PRODUCT) total = ELEMENT(1);
  for (uint i = 0u; i < p.size; ++i) {
    const uint at = place(line, i);
    const ELEMENT before = total;
    total = joined(total, x[at]);
    y[at] = EXCLUSIVE ? before : total;
  }
}

void parallel(uint line) {
  const uint lane = gl_LocalInvocationIndex;
  ELEMENT unit = ELEMENT(0);
  if (PRODUCT) unit = ELEMENT(1);
  ELEMENT carried = unit;
  for (uint first = 0u; first < p.size; first += 128u) {
    const uint i = first + lane;
    run[lane] = i < p.size ? x[place(line, i)] : unit;
    for (uint step = 1u; step < 128u; step *= 2u) {
      barrier();
      const ELEMENT left = lane >= step ? run[lane - step] : unit;
      barrier();
      run[lane] = joined(left, run[lane]);
    }
    barrier();
    const ELEMENT own = EXCLUSIVE ? (lane == 0u ? unit : run[lane - 1u]) : run[lane];
    if (i < p.size) y[place(line, i)] = joined(carried, own);
    carried = joined(carried, run[127]);
    barrier();
  }
}

void main() {
  const uint line = SERIAL ? flat_invocation() : flat_workgroup();
  if (line >= p.lines) return;
  if (SERIAL) {
    serial(line);
  } else {
    parallel(line);
  }
}
