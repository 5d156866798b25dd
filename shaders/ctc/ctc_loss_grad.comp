//! variant f32 :
// What each probability of a class at a time means for the loss: minus the share of the paths that go through it.
// Sums are in a fixed order: of a label by its occurrences, of the blank by lanes and then in pairs.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/ctc/ctc_loss_push.h"
layout(local_size_x = 128) in;
layout(std430, set = 0, binding = 0) readonly buffer LogProbs { float log_probs[]; };
layout(std430, set = 0, binding = 1) readonly buffer Labels { int labels[]; };
layout(std430, set = 0, binding = 2) coherent buffer Alpha { float alpha[]; };
layout(std430, set = 0, binding = 3) readonly buffer Cotangent { float dloss[]; };
layout(std430, set = 0, binding = 4) coherent buffer Gradient { float dx[]; };
// For each sample: two rows of beta, the shares of the states at a time, the next state of the same label.
layout(std430, set = 0, binding = 5) coherent buffer Rows { uint rows[]; };
#include "shaders/ctc/ctc.glsl"

shared float lanes[128];

uint row_at(uint row, uint s) { return (sample_of_group * 4u + row) * (2u * p.most_labels + 1u) + s; }
float beta_at(uint t, uint s) { return uintBitsToFloat(rows[row_at(t & 1u, s)]); }

const uint kShare = 2u, kNext = 3u;
const uint kNone = 0u;            // no state follows
const uint kHead = 0x80000000u;  // the first of its label

// States of one label as a chain, each once.
void chain_labels() {
  for (uint s = gl_LocalInvocationIndex; s < states; s += gl_WorkGroupSize.x) {
    const uint label = label_of(s);
    if (label == p.blank) continue;
    uint next = s + 2u;
    while (next < states && label_of(next) != label) next += 2u;
    bool first = true;
    for (uint before = 1u; before < s && first; before += 2u) first = label_of(before) != label;
    rows[row_at(kNext, s)] = (next < states ? next : kNone) | (first ? kHead : 0u);
  }
}

void backward(uint t, float total) {
  const bool last = t + 1u == p.steps;
  for (uint s = gl_LocalInvocationIndex; s < states; s += gl_WorkGroupSize.x) {
    float beta = s + 2u >= states ? 0.0 : kZero;
    if (!last) {
      const bool one = s + 1u < states, two = s + 2u < states && may_skip(s + 2u);
      beta = log_add3(beta_at(t + 1u, s) + log_prob(t + 1u, label_of(s)),
                      one ? beta_at(t + 1u, s + 1u) + log_prob(t + 1u, label_of(s + 1u)) : kZero,
                      two ? beta_at(t + 1u, s + 2u) + log_prob(t + 1u, label_of(s + 2u)) : kZero);
    }
    rows[row_at(t & 1u, s)] = floatBitsToUint(beta);
    const float share = alpha[alpha_at(t, s)] + beta - total;
    rows[row_at(kShare, s)] = floatBitsToUint(share <= kNearZero ? 0.0 : exp(share));
  }
}

float share_of(uint s) { return uintBitsToFloat(rows[row_at(kShare, s)]); }

float share_of_blank() {
  float sum = 0.0;
  for (uint s = gl_LocalInvocationIndex; s < states; s += gl_WorkGroupSize.x) {
    if (label_of(s) == p.blank) sum += share_of(s);
  }
  lanes[gl_LocalInvocationIndex] = sum;
  for (uint step = 64u; step > 0u; step /= 2u) {
    barrier();
    if (gl_LocalInvocationIndex < step) lanes[gl_LocalInvocationIndex] += lanes[gl_LocalInvocationIndex + step];
  }
  return lanes[0];  // to lane 0
}

void main() {
  sample_of_group = flat_workgroup();
  if (sample_of_group >= p.samples) return;  // the whole workgroup
  count_states();
  const float total = forward();
  const float size = total <= kNearZero ? 0.0 : dloss[sample_of_group] / max(float(states / 2u), 1.0);
  chain_labels();
  for (uint t = p.steps; t-- > 0u;) {
    const uint base = (sample_of_group * p.steps + t) * p.classes;
    for (uint c = gl_LocalInvocationIndex; c < p.classes; c += gl_WorkGroupSize.x) dx[base + c] = 0.0;
    backward(t, total);
    memoryBarrierBuffer();
    barrier();
    for (uint s = gl_LocalInvocationIndex; s < states; s += gl_WorkGroupSize.x) {
      const uint label = label_of(s);
      if (label == p.blank || label >= p.classes || (rows[row_at(kNext, s)] & kHead) == 0u) continue;
      float sum = 0.0;
      uint at = s;
      do {
        sum += share_of(at);
        at = rows[row_at(kNext, at)] & ~kHead;
      } while (at != kNone);
      dx[base + label] = -size * sum;
    }
    const float blank = share_of_blank();
    if (gl_LocalInvocationIndex == 0u) dx[base + p.blank] = -size * blank;
    memoryBarrierBuffer();
    barrier();
  }
}
