// One step of a GRU's backward pass, behind the product of the gradients of the step after with R. Without
// linear_before_reset (kOption 1) it is dispatched twice: the second phase stands behind the product of the hidden
// gate's gradient with its part of R, which is the gradient of r * h.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

// The gradient of h that goes past the product; at p.place what is multiplied by R: [rows, 3, hidden], or [rows, 2,
// hidden] and behind it the hidden gate's [rows, hidden]. At p.products the product [rows, hidden].
layout(binding = 0) buffer State { UNIT state[]; };
layout(binding = 1) readonly buffer Dy { UNIT dy[]; };
layout(binding = 2) readonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 3) readonly buffer Inner { UNIT inner[]; };
layout(binding = 4) readonly buffer Before { UNIT h_before[]; };
layout(binding = 5) readonly buffer Lengths { int lengths[]; };
layout(binding = 6) writeonly buffer DGates { UNIT dgates[]; };
layout(binding = 7) writeonly buffer DProducts { UNIT dproducts[]; };  // with linear_before_reset

const bool kResetsProduct = kOption == 1u;

void store(Own own, uint gate, UNIT value) { dgates[p.gates_at + gate_of(own, gate, 3u)] = value; }
void store_factor(Own own, uint gate, UNIT value) {
  if (kResetsProduct) {
    state[p.place + gate_of(own, gate, 3u)] = value;
    dproducts[p.gates_at + gate_of(own, gate, 3u)] = value;
  } else {
    state[p.place + (gate == 2u ? 2u * p.place + own.row * p.hidden + own.at : gate_of(own, gate, 2u))] = value;
  }
}

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  const Own own = own_unit(index);
  const UNIT product = told(kHasProduct) ? state[p.products + index] : UNIT(0.0);
  if (told(kSecondPhase)) {  // product: the gradient of r * h
    const UNIT kept = saved_gates[p.gates_at + gate_of(own, 1u, 3u)];
    const UNIT r = restored(kFirst, 0u, kept);
    const UNIT dr = product * h_before[p.hidden_at + index] * slope(kFirst, 0u, kept, r);
    state[index] += product * r;
    store(own, 1u, dr);
    store_factor(own, 1u, dr);
    return;
  }
  UNIT dh = state[index] + product;
  if (told(kFinish)) {
    state[index] = dh;
    return;
  }
  if (kHasLengths && int(p.step) >= lengths[own.row]) {
    state[index] = dh;
    for (uint gate = 0u; gate < 3u; ++gate) {
      store(own, gate, UNIT(0.0));
      store_factor(own, gate, UNIT(0.0));
    }
    return;
  }
  if (told(kHasDy)) dh += dy[p.hidden_at + index];
  UNIT kept[3];
  for (uint gate = 0u; gate < 3u; ++gate) kept[gate] = saved_gates[p.gates_at + gate_of(own, gate, 3u)];
  const UNIT z = restored(kFirst, 0u, kept[0]);
  const UNIT n = restored(kSecond, 1u, kept[2]);
  const UNIT dz = dh * (h_before[p.hidden_at + index] - n) * slope(kFirst, 0u, kept[0], z);
  const UNIT dn = dh * (1.0 - z) * slope(kSecond, 1u, kept[2], n);
  state[index] = dh * z;
  store(own, 0u, dz);
  store(own, 2u, dn);
  store_factor(own, 0u, dz);
  if (kResetsProduct) {
    const UNIT r = restored(kFirst, 0u, kept[1]);
    const UNIT dr = dn * inner[p.hidden_at + index] * slope(kFirst, 0u, kept[1], r);
    store(own, 1u, dr);
    store_factor(own, 1u, dr);
    store_factor(own, 2u, dn * r);
  } else {
    store_factor(own, 2u, dn);
  }
}
