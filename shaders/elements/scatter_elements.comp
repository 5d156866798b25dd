// Writes updates along an axis without scattering: the owner of an element looks at all indices of its line, in order,
// so that the last of equal indices wins and sums have one order. Indices out of range are met by nobody.
//! variant f32 : -DELEMENT=float
//! variant i32 : -DELEMENT=int
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/nan.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint REDUCTION = 0;  // 0 none, 1 add, 2 mul, 3 min, 4 max
#include "shaders/common/index.glsl"
#include "shaders/elements/scatter_elements_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Data { ELEMENT data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 2) readonly buffer Updates { ELEMENT updates[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Y { ELEMENT y[]; };

float smaller(float a, float b) { return min_nan(a, b); }
float larger(float a, float b) { return max_nan(a, b); }
int smaller(int a, int b) { return min(a, b); }
int larger(int a, int b) { return max(a, b); }

ELEMENT joined(ELEMENT kept, ELEMENT update) {
  switch (REDUCTION) {
    case 1: return kept + update;
    case 2: return kept * update;
    case 3: return smaller(kept, update);
    case 4: return larger(kept, update);
  }
  return update;
}

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint row = i / p.inner;
  const uint column = i - row * p.inner;
  const uint outer = row / p.axis_size;
  const int own = int(row - outer * p.axis_size);
  const int from_end = own - int(p.axis_size);
  const uint first = outer * p.picks;
  const uint index_column = p.index_inner == 1u ? 0u : column;
  ELEMENT value = data[i];
  for (uint m = 0u; m < p.picks; ++m) {
    const int index = indices[(first + m) * p.index_inner + index_column];
    if (index == own || index == from_end) value = joined(value, updates[(first + m) * p.inner + column]);
  }
  y[i] = value;
}
