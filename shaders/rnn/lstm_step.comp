// One step of an LSTM behind the product of its state with R: gates in the order input, output, forget, cell.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

layout(binding = 0) buffer State { UNIT state[]; };  // h, c, and at p.products the products [rows, 4, hidden]
layout(binding = 1) readonly buffer Gates { UNIT gates[]; };
layout(binding = 2) readonly buffer Lengths { int lengths[]; };
layout(binding = 3) readonly buffer Peepholes { UNIT peepholes[]; };  // input, output, forget
layout(binding = 4) writeonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 5) writeonly buffer Y { UNIT y[]; };
layout(binding = 6) writeonly buffer Cells { UNIT cells[]; };

const bool kInputForget = (kOption & 1u) != 0u;
const bool kClipsCell = (kOption & 2u) != 0u;

void store_gates(Own own, UNIT i, UNIT o, UNIT f, UNIT g) {
  saved_gates[p.gates_at + gate_of(own, 0u, 4u)] = i;
  saved_gates[p.gates_at + gate_of(own, 1u, 4u)] = o;
  saved_gates[p.gates_at + gate_of(own, 2u, 4u)] = f;
  saved_gates[p.gates_at + gate_of(own, 3u, 4u)] = g;
}

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  const Own own = own_unit(index);
  UNIT c = state[p.place + index];
  if (kHasLengths && int(p.step) >= lengths[own.row]) {  // beyond the sequence the state rests
    const UNIT none = UNIT(0.0);
    store_gates(own, none, none, none, none);
    y[p.hidden_at + index] = none;
    cells[p.hidden_at + index] = c;
    return;
  }
  UNIT sums[4];
  for (uint gate = 0u; gate < 4u; ++gate) {
    sums[gate] = gates[p.gates_at + gate_of(own, gate, 4u)];
    if (told(kHasProduct)) sums[gate] += state[p.products + gate_of(own, gate, 4u)];
  }
  if (told(kHasPeepholes)) {
    sums[0] += peepholes[own.at] * c;
    sums[2] += peepholes[2u * p.hidden + own.at] * c;
  }
  const UNIT i = activated(kFirst, 0u, sums[0]);
  const UNIT f = kInputForget ? 1.0 - i : activated(kFirst, 0u, sums[2]);
  const UNIT g = activated(kSecond, 1u, sums[3]);
  c = f * c + i * g;
  if (kClipsCell) c = clamp(c, UNIT(-p.clip), UNIT(p.clip));
  if (told(kHasPeepholes)) sums[1] += peepholes[p.hidden + own.at] * c;
  const UNIT o = activated(kFirst, 0u, sums[1]);
  const UNIT h = o * activation(kThird, 2u, c);
  store_gates(own, saved(sums[0], i), saved(sums[1], o), saved(sums[2], f), saved(sums[3], g));
  state[index] = h;
  state[p.place + index] = c;
  y[p.hidden_at + index] = h;
  cells[p.hidden_at + index] = c;
}
