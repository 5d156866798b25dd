// What gated.comp and gated_grad.comp share. Include after layout(local_size_x).
#include "shaders/common/activations.glsl"
#include "shaders/gated/gated_push.h"
layout(constant_id = 0) const uint ACTIVATION = 0;  // 0: silu, 1: gelu, 2: gelu by tanh
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer Gate1 { float gate1[]; };
layout(binding = 0) readonly buffer Gate4 { vec4 gate4[]; };
layout(binding = 1) readonly buffer Up1 { float up1[]; };
layout(binding = 1) readonly buffer Up4 { vec4 up4[]; };

float activation(float x) { return ACTIVATION == 0 ? silu(x) : ACTIVATION == 1 ? gelu(x) : gelu_tanh(x); }
