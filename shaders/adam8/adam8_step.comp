// One step of Adam or AdamW whose moments are kept as 8-bit codes and one scale per block of 256 (codes.h). A workgroup
// takes a block, an invocation four elements, whose codes are one word. The step itself uses the moments before they
// are rounded.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 64) in;
#include "shaders/adam8/codes.h"
#include "shaders/common/index.glsl"
#include "shaders/common/step_state.h"
#include "shaders/loss_scale/update_control.h"
#include "shaders/optimizer/adam_step_push.h"

layout(std430, binding = 0) buffer Param { float param[]; };
layout(std430, binding = 1) readonly buffer Grad { float grad[]; };
layout(std430, binding = 2) buffer First { uint first[]; };
layout(std430, binding = 3) buffer FirstScale { float first_scale[]; };
layout(std430, binding = 4) buffer Second { uint second[]; };
layout(std430, binding = 5) buffer SecondScale { float second_scale[]; };
layout(std430, binding = 6) readonly buffer Factor { float factor[]; };
layout(std430, binding = 7) readonly buffer State { StepState state; };

shared vec2 largest[64];

void main() {
  const uint block = flat_workgroup();
  const uint lane = gl_LocalInvocationIndex;
  if (block * 256u >= p.count) return;  // the whole workgroup
  if (UPDATE_SKIPPED) return;
  const float rate = state.learning_rate[p.group] * p.rate_scale;
  const float correction1 = p.has_factor == 2u ? factor[kCorrection1] : state.bias_correction1[p.group];
  const float correction2 = p.has_factor == 2u ? factor[kCorrection2] : state.bias_correction2[p.group];
  const uint word = block * 64u + lane;
  const bool real_word = word * 4u < p.count;
  uint codes_m = 0u, codes_v = 0u;
  if (real_word) {
    codes_m = first[word];
    codes_v = second[word];
  }
  vec4 m = vec4(0.0), v = vec4(0.0);
  [[unroll]] for (uint k = 0; k < 4; ++k) {
    const uint i = word * 4u + k;
    if (i >= p.count) continue;
    float g = grad[i];
    if (p.has_factor != 0u) g *= factor[kFactor];
    if (p.maximize != 0u) g = -g;
    float x = param[i];
    if (p.decoupled != 0u) {
      x *= 1.0 - rate * p.weight_decay;
    } else {
      g += p.weight_decay * x;
    }
    m[k] = p.beta1 * (first_scale[block] * decode_signed((codes_m >> (8u * k)) & 255u)) + p.one_minus_beta1 * g;
    v[k] = p.beta2 * (second_scale[block] * decode_unsigned((codes_v >> (8u * k)) & 255u)) + p.one_minus_beta2 * (g * g);
    const float denominator = sqrt(v[k]) / sqrt(correction2) + p.epsilon;
    param[i] = x - rate / correction1 * (m[k] / denominator);
  }
  const vec4 am = abs(m);
  largest[lane] = vec2(max(max(am.x, am.y), max(am.z, am.w)), max(max(v.x, v.y), max(v.z, v.w)));
  barrier();
  for (uint count = 32u; count > 0u; count >>= 1) {
    if (lane < count) largest[lane] = max(largest[lane], largest[lane + count]);
    barrier();
  }
  const vec2 scale = largest[0];
  if (lane == 0u) {
    first_scale[block] = scale.x;
    second_scale[block] = scale.y;
  }
  codes_m = 0u;
  codes_v = 0u;
  [[unroll]] for (uint k = 0; k < 4; ++k) {
    codes_m |= encode_signed(scale.x > 0.0 ? m[k] / scale.x : 0.0) << (8u * k);
    codes_v |= encode_unsigned(scale.y > 0.0 ? v[k] / scale.y : 0.0) << (8u * k);
  }
  if (real_word) {
    first[word] = codes_m;
    second[word] = codes_v;
  }
}
