// The paths of connectionist temporal classification (Graves et al. 2006), in logarithms; one workgroup for a sample.
// States of a sample: blank, label 0, blank, label 1, ..., blank. Include after the buffers log_probs[] (0), labels[] (1)
// and coherent alpha[] are declared.
#include "shaders/common/index.glsl"

// A logarithm of zero that sums of a few thousand cannot reach: infinities are not relied upon.
const float kZero = -1e30;
const float kNearZero = -1e29;

uint sample_of_group;
uint states;  // 2 * labels + 1

float log_add(float a, float b) {
  const float most = max(a, b);
  return most <= kNearZero ? kZero : most + log(exp(a - most) + exp(b - most));
}

float log_add3(float a, float b, float c) {
  const float most = max(max(a, b), c);
  return most <= kNearZero ? kZero : most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

uint label_of(uint s) { return (s & 1u) == 0u ? p.blank : uint(labels[sample_of_group * p.most_labels + s / 2u]); }

float log_prob(uint t, uint label) {
  if (label >= p.classes) return kZero;
  return max(log_probs[(sample_of_group * p.steps + t) * p.classes + label], kZero);
}

// Whether a path may go from state s - 2 straight to s.
bool may_skip(uint s) {
  if (s < 2u) return false;
  const uint label = label_of(s);
  return label != p.blank && label != label_of(s - 2u);
}

// Labels end at the first below 0.
void count_states() {
  uint count = 0u;
  while (count < p.most_labels && labels[sample_of_group * p.most_labels + count] >= 0) ++count;
  states = 2u * count + 1u;
}

uint alpha_at(uint t, uint s) { return (sample_of_group * p.rows + t % p.rows) * (2u * p.most_labels + 1u) + s; }

// Fills alpha; the logarithm of the probability of all paths.
float forward() {
  for (uint t = 0u; t < p.steps; ++t) {
    for (uint s = gl_LocalInvocationIndex; s < states; s += gl_WorkGroupSize.x) {
      float from = s < 2u ? 0.0 : kZero;
      if (t > 0u) {
        from = log_add3(alpha[alpha_at(t - 1u, s)], s > 0u ? alpha[alpha_at(t - 1u, s - 1u)] : kZero,
                        may_skip(s) ? alpha[alpha_at(t - 1u, s - 2u)] : kZero);
      }
      alpha[alpha_at(t, s)] = max(from + log_prob(t, label_of(s)), kZero);
    }
    memoryBarrierBuffer();
    barrier();
  }
  if (p.steps == 0u) return states == 1u ? 0.0 : kZero;
  const float last = alpha[alpha_at(p.steps - 1u, states - 1u)];
  return states < 2u ? last : log_add(last, alpha[alpha_at(p.steps - 1u, states - 2u)]);
}
