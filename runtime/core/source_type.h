// The element types that a source model gives its inputs and outputs, where the device's 32-bit words are another one:
// numbers arrive and leave as what the source says, and one that does not fit is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "platform/base/status.h"
#include "runtime/core/dtype.h"

namespace graft {

/// Numbered as in schema/model.fbs. `same`: the value's own dtype.
enum class SourceType : std::uint8_t {
  same = 0,
  i8 = 1,
  u8 = 2,
  i16 = 3,
  u16 = 4,
  u32 = 5,
  i64 = 6,
  u64 = 7,
  f64 = 8,
  f16 = 9,
  bf16 = 10,
};
inline constexpr SourceType kLastSourceType = SourceType::bf16;

struct SourceTypeInfo {
  std::string_view name;   ///< "uint8"
  std::string_view numpy;  ///< "|u1"; empty: NumPy has none
  std::uint8_t bytes;
  DType dtype;  ///< of the words on the device
};
/// Requires a type other than `same`.
const SourceTypeInfo& source_type_info(SourceType type);

/// Words of the device as elements of the type; out.size() is as many elements. An error names the first integer that
/// does not fit. Floats are rounded to nearest.
Status words_to_source(SourceType type, std::span<const std::byte> words, std::span<std::byte> out);

}  // namespace graft
