// The sum of what slots gave, in the order of the slots, by the kernel that adds micro-batches up on one worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/exec/capture.h"
#include "runtime/exec/program.h"

namespace graft::distribute {

/// On a device: what it does with numbers too small to be normal, it does here as well. Takes device memory for three
/// times the elements that it adds at once, and no more however long the vectors are.
///
/// Threads: the device's. Lifetime: not beyond the device's.
class SlotSum {
 public:
  /// `elements`: the most that it adds at once, of f32.
  static Result<std::unique_ptr<SlotSum>> create(gpu::Device& device, std::uint64_t elements);

  /// What create() takes of the device.
  static Result<MemoryByClass> planned(const gpu::Target& target, std::uint64_t elements);

  /// out = ((0 + slots[0]) + slots[1]) + ...; all of one size, a multiple of 4 bytes. One slot alone is copied.
  Status add(std::span<const std::span<const std::byte>> slots, std::span<std::byte> out);

 private:
  explicit SlotSum(std::uint64_t bytes) : bytes_(bytes) {}

  std::uint64_t bytes_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Capture> sum_;
};

}  // namespace graft::distribute
