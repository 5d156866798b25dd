// Numbers on their way between the host and a device that keeps them in 16 bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "runtime/core/dtype.h"

namespace graft {

/// Writes the numbers of `source`, of type `from`, as numbers of type `to`, rounded to nearest. Elements of equal types
/// are copied as they are; else both are f32, f16 or bf16.
void convert_numbers(DType from, std::span<const std::byte> source, DType to, std::byte* target);

/// Rounds the numbers of `source` to `stored` and converts them back to `type`. Source and target may be one memory.
void round_numbers(DType type, std::span<const std::byte> source, DType stored, std::byte* target);

/// The first finite number that rounding would make infinite.
std::optional<float> first_beyond(DType from, std::span<const std::byte> source, DType to);

}  // namespace graft
