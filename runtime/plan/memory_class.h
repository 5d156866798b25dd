// What device memory is for: the classes that every byte is counted under, planned and measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace graft {

enum class MemoryClass : std::uint8_t {
  weights,      ///< frozen weights and folded constants
  parameters,   ///< trained, and statistics that belong to the model
  gradients,    ///< results of the backward pass that an optimizer or the caller reads; accumulators
  optimizer,    ///< state of optimizers and all other state
  activations,  ///< inputs, results of nodes, and gaps between them
  workspace,    ///< scratch memory of a node
  staging,      ///< host-visible copies of inputs and outputs
  step_state,   ///< the block of numbers that change from step to step
};
inline constexpr std::size_t kMemoryClasses = 8;
std::string_view memory_class_name(MemoryClass c);  ///< "weights"

/// Bytes of each class.
struct MemoryByClass {
  std::array<std::uint64_t, kMemoryClasses> bytes = {};
  std::uint64_t& operator[](MemoryClass c) { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t operator[](MemoryClass c) const { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t b : bytes) sum += b;
    return sum;
  }
  friend bool operator==(const MemoryByClass&, const MemoryByClass&) = default;
};

}  // namespace graft
