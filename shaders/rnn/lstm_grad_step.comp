// One step of an LSTM's backward pass, behind the product of the gradients of the gates of the step after with R.
//! variant f32 :
//! variant f32_quads : -DQUADS
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/rnn/rnn_cell.glsl"

// The gradient of h that passes rows by, the gradient of c, c before the first step, this step's dgates
// [rows, 4, hidden]; at p.products the product [rows, hidden].
layout(binding = 0) buffer State { UNIT state[]; };
layout(binding = 1) readonly buffer Dy { UNIT dy[]; };
layout(binding = 2) readonly buffer Saved { UNIT saved_gates[]; };
layout(binding = 3) readonly buffer Cells { UNIT cells[]; };
layout(binding = 4) readonly buffer Before { UNIT cells_before[]; };
layout(binding = 5) readonly buffer Lengths { int lengths[]; };
layout(binding = 6) readonly buffer Peepholes { UNIT peepholes[]; };
layout(binding = 7) writeonly buffer DGates { UNIT dgates[]; };

const bool kInputForget = (kOption & 1u) != 0u;
const bool kClipsCell = (kOption & 2u) != 0u;

// Of the gradient of a cell, what passes to what it was before it was limited, c. (The saved cell may be of 16 bits, and
// then is no longer the limit itself.)
UNIT through_limit(UNIT dc, UNIT c) {
#ifdef QUADS
  return mix(dc, vec4(0.0), greaterThanEqual(abs(c), vec4(p.clip)));
#else
  return abs(c) >= p.clip ? 0.0 : dc;
#endif
}

void store(Own own, uint gate, UNIT value) {
  state[3u * p.place + gate_of(own, gate, 4u)] = value;
  dgates[p.gates_at + gate_of(own, gate, 4u)] = value;
}

void main() {
  const uint index = flat_invocation();
  if (index >= p.count) return;
  const Own own = own_unit(index);
  UNIT dh = state[index];
  if (told(kHasProduct)) dh += state[p.products + index];
  if (told(kFinish)) {
    state[index] = dh;
    return;
  }
  if (kHasLengths && int(p.step) >= lengths[own.row]) {
    state[index] = dh;
    for (uint gate = 0u; gate < 4u; ++gate) store(own, gate, UNIT(0.0));
    return;
  }
  if (told(kHasDy)) dh += dy[p.hidden_at + index];
  UNIT kept[4];
  for (uint gate = 0u; gate < 4u; ++gate) kept[gate] = saved_gates[p.gates_at + gate_of(own, gate, 4u)];
  const UNIT i = restored(kFirst, 0u, kept[0]);
  const UNIT o = restored(kFirst, 0u, kept[1]);
  const UNIT f = kInputForget ? 1.0 - i : restored(kFirst, 0u, kept[2]);
  const UNIT g = restored(kSecond, 1u, kept[3]);
  const UNIT c = cells[p.hidden_at + index];
  const UNIT before = told(kIsFirst) ? state[2u * p.place + index] : cells_before[p.before_at + index];
  const UNIT active_c = activation(kThird, 2u, c);
  const UNIT dout = dh * active_c * slope(kFirst, 0u, kept[1], o);
  UNIT dc = state[p.place + index] + dh * o * activation_slope(kThird, 2u, c, active_c);
  if (told(kHasPeepholes)) dc += dout * peepholes[p.hidden + own.at];
  if (kClipsCell) dc = through_limit(dc, f * before + i * g);
  const UNIT df = dc * before;
  const UNIT di = (kInputForget ? dc * g - df : dc * g) * slope(kFirst, 0u, kept[0], i);
  const UNIT dforget = kInputForget ? UNIT(0.0) : df * slope(kFirst, 0u, kept[2], f);
  const UNIT dcell = dc * i * slope(kSecond, 1u, kept[3], g);
  dc *= f;
  if (told(kHasPeepholes)) dc += di * peepholes[own.at] + dforget * peepholes[2u * p.hidden + own.at];
  store(own, 0u, di);
  store(own, 1u, dout);
  store(own, 2u, dforget);
  store(own, 3u, dcell);
  state[index] = UNIT(0.0);
  state[p.place + index] = dc;
}
