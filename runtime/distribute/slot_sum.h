// The sum of what slots gave, in the order of the slots, to the bits of the kernel that adds micro-batches up on one
// worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/distribute/wire.h"
#include "runtime/exec/capture.h"
#include "runtime/exec/program.h"

namespace graft::distribute {

/// out = ((0 + slots[0]) + slots[1]) + ..., by the host; all of one size and in the form of the wire. `flushes`:
/// numbers too small to be normal count as zero, as addends and as sums.
void add_on_host(std::span<const std::span<const std::byte>> slots, Wire wire, bool flushes, std::span<std::byte> out);

/// With the host's additions, where a trial shows that the device adds as they do, including the numbers too small to
/// be normal and what it rounds to; else on the device, which takes memory for three times the elements that it adds at
/// once, and no more however long the vectors are.
///
/// Threads: the device's. Lifetime: not beyond the device's.
class SlotSum {
 public:
  enum class Where : std::uint8_t { by_trial, device };
  /// `elements`: the most that it adds at once on the device, of f32.
  static Result<std::unique_ptr<SlotSum>> create(gpu::Device& device, std::uint64_t elements,
                                                 Where where = Where::by_trial);

  /// What create() takes of the device, at most.
  static Result<MemoryByClass> planned(const gpu::Target& target, std::uint64_t elements);

  /// As add_on_host(), to the device's bits. One slot alone is copied.
  Status add(std::span<const std::span<const std::byte>> slots, Wire wire, std::span<std::byte> out);

  bool on_host() const { return program_ == nullptr; }

 private:
  explicit SlotSum(std::uint64_t bytes) : bytes_(bytes) {}
  Status add_on_device(std::span<const std::span<const std::byte>> slots, Wire wire, std::span<std::byte> out);
  Status find_out();

  std::uint64_t bytes_;
  bool flushes_ = false;  ///< on the host: numbers too small to be normal count as zero
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Capture> sum_;
};

}  // namespace graft::distribute
