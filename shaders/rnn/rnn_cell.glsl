// What the kernels of one time step share: units of one or four hidden elements, activations and their slopes.
// An invocation owns one unit of one row of the batch, so what it reads and writes of all tensors is its own.
// The host's side is runtime/ops/rnn/recurrence.cpp.
#ifndef GRAFT_RNN_CELL_GLSL
#define GRAFT_RNN_CELL_GLSL
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/rnn/rnn_step_push.h"

#ifdef QUADS
#define UNIT vec4
#else
#define UNIT float
#endif

// As in runtime/ops/rnn/cell.h. A specialised pipeline holds those that its network has.
const uint kAffine = 0, kElu = 1, kHardSigmoid = 2, kLeakyRelu = 3, kRelu = 4, kScaledTanh = 5, kSigmoid = 6,
           kSoftplus = 7, kSoftsign = 8, kTanh = 9, kThresholdedRelu = 10;
layout(constant_id = 0) const uint kFirst = 6;
layout(constant_id = 1) const uint kSecond = 9;
layout(constant_id = 2) const uint kThird = 9;
layout(constant_id = 3) const bool kSavesSums = false;  // what goes into activations is saved, not what comes out
layout(constant_id = 4) const bool kClips = false;
layout(constant_id = 5) const bool kHasLengths = false;
layout(constant_id = 6) const uint kOption = 0;  // of the kind of cell

const uint kHasProduct = 1u, kHasDy = 2u, kHasPeepholes = 4u, kFinish = 8u, kHasBias = 16u, kIsFirst = 32u,
           kSecondPhase = 64u;
bool told(uint flag) { return (p.flags & flag) != 0u; }

float activated_one(uint kind, float x, float alpha, float beta) {
  if (kind == kSigmoid) return sigmoid_accurate(x);
  if (kind == kTanh) return tanh_accurate(x);
  if (kind == kRelu) return max_nan(x, 0.0);
  if (kind == kAffine) return alpha * x + beta;
  if (kind == kLeakyRelu) return x < 0.0 ? alpha * x : x;
  if (kind == kThresholdedRelu) return x > alpha || is_nan(x) ? x : 0.0;
  if (kind == kScaledTanh) return alpha * tanh_accurate(beta * x);
  if (kind == kHardSigmoid) return is_nan(x) ? x : clamp(alpha * x + beta, 0.0, 1.0);
  if (kind == kElu) return x < 0.0 ? alpha * expm1_accurate(x) : x;
  if (kind == kSoftsign) return x / (1.0 + abs(x));
  return softplus_accurate(x);
}

// From what comes out, y; x is what goes in, or y again where the sign of one is that of the other.
float slope_one(uint kind, float x, float y, float alpha, float beta) {
  if (kind == kSigmoid) return y * (1.0 - y);
  if (kind == kTanh) return 1.0 - y * y;
  if (kind == kRelu) return x > 0.0 ? 1.0 : 0.0;
  if (kind == kAffine) return alpha;
  if (kind == kLeakyRelu) return x < 0.0 ? alpha : 1.0;
  if (kind == kThresholdedRelu) return x > alpha ? 1.0 : 0.0;
  if (kind == kScaledTanh) return alpha == 0.0 ? 0.0 : beta * (alpha - y * y / alpha);
  if (kind == kHardSigmoid) return y > 0.0 && y < 1.0 ? alpha : 0.0;
  if (kind == kElu) return x < 0.0 ? y + alpha : 1.0;
  if (kind == kSoftsign) return (1.0 - abs(y)) * (1.0 - abs(y));
  return -expm1_accurate(-y);
}

UNIT limited(UNIT x) { return kClips ? clamp(x, UNIT(-p.clip), UNIT(p.clip)) : x; }

UNIT activation(uint kind, uint which, UNIT x) {
#ifdef QUADS
  return vec4(activated_one(kind, x.x, p.alpha[which], p.beta[which]),
              activated_one(kind, x.y, p.alpha[which], p.beta[which]),
              activated_one(kind, x.z, p.alpha[which], p.beta[which]),
              activated_one(kind, x.w, p.alpha[which], p.beta[which]));
#else
  return activated_one(kind, x, p.alpha[which], p.beta[which]);
#endif
}

// Of a gate, whose sum may be clipped first.
UNIT activated(uint kind, uint which, UNIT sum) { return activation(kind, which, limited(sum)); }

UNIT activation_slope(uint kind, uint which, UNIT x, UNIT y) {
#ifdef QUADS
  return vec4(slope_one(kind, x.x, y.x, p.alpha[which], p.beta[which]),
              slope_one(kind, x.y, y.y, p.alpha[which], p.beta[which]),
              slope_one(kind, x.z, y.z, p.alpha[which], p.beta[which]),
              slope_one(kind, x.w, y.w, p.alpha[which], p.beta[which]));
#else
  return slope_one(kind, x, y, p.alpha[which], p.beta[which]);
#endif
}

UNIT slope(uint kind, uint which, UNIT sum, UNIT y) {
  const UNIT slopes = activation_slope(kind, which, limited(sum), y);
#ifdef QUADS
  return kClips ? mix(vec4(0.0), slopes, lessThan(abs(sum), vec4(p.clip))) : slopes;
#else
  return kClips && !(abs(sum) < p.clip) ? 0.0 : slopes;
#endif
}

// What a forward step saves of a gate, and what a backward step makes of that.
UNIT saved(UNIT sum, UNIT y) { return kSavesSums ? sum : y; }
UNIT restored(uint kind, uint which, UNIT kept) { return kSavesSums ? activated(kind, which, kept) : kept; }

// The unit that this invocation owns: row of the batch, and place in the row.
struct Own {
  uint row;
  uint at;
};
Own own_unit(uint i) {
  const uint row = i / p.hidden;
  return Own(row, i - row * p.hidden);
}
// Where gate `gate` of `gates` of it stands within a step.
uint gate_of(Own own, uint gate, uint gates) { return (own.row * gates + gate) * p.hidden + own.at; }

#endif
