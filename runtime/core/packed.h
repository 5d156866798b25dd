// Elements of fewer than 32 bits that inputs may be given in, and that the device turns into f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace graft {

/// Numbers as in fused_unpack's attribute and in graft_element.
enum class Packed : std::uint8_t { u8, i8, f16, bf16 };

constexpr std::size_t packed_size(Packed element) { return element == Packed::u8 || element == Packed::i8 ? 1 : 2; }

constexpr std::string_view packed_name(Packed element) {
  constexpr std::string_view kNames[] = {"u8", "i8", "f16", "bf16"};
  return kNames[static_cast<std::size_t>(element)];
}

}  // namespace graft
