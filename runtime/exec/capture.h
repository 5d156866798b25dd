// A copy of the residents that a run changes, in memory that the host reads: what a checkpoint is made of.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <span>
#include <vector>

#include "runtime/exec/memory.h"

namespace graft {

/// Threads: take() on the device's thread. Between two calls of it any thread may read what it copied.
/// Lifetime: not beyond its memory's.
class Capture {
 public:
  enum class What : std::uint8_t {
    all,
    statistics,  ///< the state that a forward pass changes: running statistics
    gradients,   ///< accumulators
  };
  struct Entry {
    const Resident* resident = nullptr;
    std::span<const std::byte> bytes;
  };

  /// Allocates host-visible memory and records the copy. Constants are left out: nothing changes them.
  static Result<std::unique_ptr<Capture>> create(Memory& memory, std::chrono::nanoseconds timeout,
                                                 What what = What::all);
  /// What create() allocates.
  static std::uint64_t planned_bytes(const Residents& residents, What what = What::all);

  /// Copies everything as it stands now, and waits until it is there. Allocates nothing.
  Status take();
  /// Sets every 32-bit word of what it copies, on the device.
  Status fill(std::uint32_t word);
  const std::vector<Entry>& entries() const { return entries_; }
  std::uint64_t bytes() const;

 private:
  Capture(Memory& memory, std::chrono::nanoseconds timeout) : memory_(memory), timeout_(timeout) {}
  Status run(gpu::CommandList& commands, const char* while_doing);

  Memory& memory_;
  std::chrono::nanoseconds timeout_;
  std::vector<std::unique_ptr<gpu::Buffer>> buffers_;
  std::unique_ptr<gpu::CommandList> copy_;
  std::vector<std::pair<std::uint32_t, std::unique_ptr<gpu::CommandList>>> fills_;  ///< by word, as they are asked for
  std::vector<Entry> entries_;
};

}  // namespace graft
