// Numbers on their way to a type of fewer bits: what is finite must not become infinite unseen.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "platform/base/status.h"
#include "runtime/core/dtype.h"

namespace graft {

/// The largest finite number of f32, f16 or bf16.
float largest_number(DType dtype);

/// invalid_argument names the tensor, the first finite number that would be infinite as f16 or bf16, and the limit.
Status check_narrowing(std::string_view name, std::span<const float> numbers, DType dtype);

/// The same of numbers that quantize() made blocks of: their scales are f16.
Status check_blocks(std::string_view name, std::span<const float> numbers, DType dtype,
                    std::span<const std::byte> blocks);

}  // namespace graft
