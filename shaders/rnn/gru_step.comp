// One step of a GRU behind a product of its state with R: gates in the order update, reset, hidden. Where the reset gate
// comes behind the product (kOption 1: linear_before_reset), one product serves all three gates. Otherwise this is
// dispatched twice: behind the product of two gates, and, in the second phase, behind that of r * h.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

layout(binding = 0) buffer State { UNIT state[]; };  // h, r * h, z, and at p.products the products [rows, n, hidden]
layout(binding = 1) readonly buffer Gates { UNIT gates[]; };
layout(binding = 2) readonly buffer Lengths { int lengths[]; };
layout(binding = 3) readonly buffer Bias { UNIT bias[]; };  // of the hidden gate's product
layout(binding = 4) writeonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 5) writeonly buffer Y { UNIT y[]; };
layout(binding = 6) writeonly buffer Inner { UNIT inner[]; };  // the hidden gate's product with its bias, or r * h

const bool kResetsProduct = kOption == 1u;

UNIT gate_sum(Own own, uint gate, uint product, uint products) {
  const UNIT sum = gates[p.gates_at + gate_of(own, gate, 3u)];
  return told(kHasProduct) ? sum + state[p.products + gate_of(own, product, products)] : sum;
}

void store_gate(Own own, uint gate, UNIT sum, UNIT value) {
  saved_gates[p.gates_at + gate_of(own, gate, 3u)] = saved(sum, value);
}

void finish(uint index, UNIT z, UNIT n, UNIT h) {
  h = (1.0 - z) * n + z * h;
  state[index] = h;
  y[p.hidden_at + index] = h;
}

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  const Own own = own_unit(index);
  const UNIT h = state[index];
  if (kHasLengths && int(p.step) >= lengths[own.row]) {
    for (uint gate = 0u; gate < 3u; ++gate) saved_gates[p.gates_at + gate_of(own, gate, 3u)] = UNIT(0.0);
    y[p.hidden_at + index] = UNIT(0.0);
    inner[p.hidden_at + index] = UNIT(0.0);
    state[p.place + index] = UNIT(0.0);
    return;
  }
  if (told(kSecondPhase)) {
    const UNIT sum = gate_sum(own, 2u, 0u, 1u);
    const UNIT n = activated(kSecond, 1u, sum);
    store_gate(own, 2u, sum, n);
    finish(index, state[2u * p.place + index], n, h);
    return;
  }
  const uint products = kResetsProduct ? 3u : 2u;
  const UNIT z_sum = gate_sum(own, 0u, 0u, products);
  const UNIT r_sum = gate_sum(own, 1u, 1u, products);
  const UNIT z = activated(kFirst, 0u, z_sum);
  const UNIT r = activated(kFirst, 0u, r_sum);
  UNIT middle = r * h;
  if (kResetsProduct) {
    middle = told(kHasProduct) ? state[p.products + gate_of(own, 2u, 3u)] : UNIT(0.0);
    if (told(kHasBias)) middle += bias[own.at];
    const UNIT sum = gates[p.gates_at + gate_of(own, 2u, 3u)] + r * middle;
    const UNIT n = activated(kSecond, 1u, sum);
    store_gate(own, 2u, sum, n);
    finish(index, z, n, h);
  } else {
    state[p.place + index] = middle;
    state[2u * p.place + index] = z;
  }
  store_gate(own, 0u, z_sum, z);
  store_gate(own, 1u, r_sum, r);
  inner[p.hidden_at + index] = middle;
}
