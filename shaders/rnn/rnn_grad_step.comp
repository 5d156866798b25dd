// One step of a simple recurrent layer's backward pass, behind the product of the step after with R.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

// The gradient of h that passes rows by, this step's dgates; at p.products the product.
layout(binding = 0) buffer State { UNIT state[]; };
layout(binding = 1) readonly buffer Dy { UNIT dy[]; };
layout(binding = 2) readonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 3) readonly buffer Lengths { int lengths[]; };
layout(binding = 4) writeonly buffer DGates { UNIT dgates[]; };

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  UNIT dh = state[index];
  if (told(kHasProduct)) dh += state[p.products + index];
  if (told(kFinish)) {
    state[index] = dh;
    return;
  }
  UNIT dsum = UNIT(0.0);
  if (kHasLengths && int(p.step) >= lengths[own_unit(index).row]) {
    state[index] = dh;
  } else {
    if (told(kHasDy)) dh += dy[p.hidden_at + index];
    const UNIT kept = saved_gates[p.gates_at + index];
    dsum = dh * slope(kFirst, 0u, kept, restored(kFirst, 0u, kept));
    state[index] = UNIT(0.0);
  }
  state[p.place + index] = dsum;
  dgates[p.gates_at + index] = dsum;
}
