// One step of a simple recurrent layer behind the product of its state with R.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

layout(binding = 0) buffer State { UNIT state[]; };  // h, and at p.products the product
layout(binding = 1) readonly buffer Gates { UNIT gates[]; };
layout(binding = 2) readonly buffer Lengths { int lengths[]; };
layout(binding = 3) writeonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 4) writeonly buffer Y { UNIT y[]; };

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  if (kHasLengths && int(p.step) >= lengths[own_unit(index).row]) {
    saved_gates[p.gates_at + index] = UNIT(0.0);
    y[p.hidden_at + index] = UNIT(0.0);
    return;
  }
  UNIT sum = gates[p.gates_at + index];
  if (told(kHasProduct)) sum += state[p.products + index];
  const UNIT h = activated(kFirst, 0u, sum);
  saved_gates[p.gates_at + index] = saved(sum, h);
  state[index] = h;
  y[p.hidden_at + index] = h;
}
