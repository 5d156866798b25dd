// What becomes of products of f32 on a device, as gpu::Policy::matmul_precision asks for it.
#pragma once

#include "runtime/ops/choice.h"

namespace graft {

struct Rounding {
  bool rounds = false;     ///< operands are rounded; else all products stay in f32, asked or not
  bool to_f16 = false;     ///< for matrix units
  bool to_bf16 = false;    ///< for them, beside bf16 operands
  bool to_8_bits = false;  ///< beside quantized weights
};

inline Rounding rounding_of(const gpu::Target& target) {
  const bool medium = target.policy.matmul_precision == gpu::MatmulPrecision::medium;
  return {rounds_products(target), rounds_to_f16(target), medium && multiplies_bf16(target),
          medium && target.caps.integer_dot && target.caps.type != gpu::DeviceType::cpu};
}

}  // namespace graft
