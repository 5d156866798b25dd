// Shares that follow how long workers take: whoever is slower gets fewer slots, which changes no bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/train/plan/worker_section.h"

namespace graft::distribute {

/// What a slot costs each worker, from the sections of the steps so far: the same for all who saw the same sections.
class Paces {
 public:
  /// After each step.
  void note(std::span<const train::WorkerSection> sections);
  /// As train::Share::costs. Another only where shares by it would end a step a tenth earlier: a change has its price,
  /// since what a worker has read ahead is read again.
  const std::vector<std::uint64_t>& costs() const { return costs_; }

 private:
  std::uint64_t steps_ = 0;
  std::vector<std::uint64_t> measured_;  ///< nanoseconds a slot, by worker; 0: not known
  std::vector<std::uint64_t> costs_;
};

}  // namespace graft::distribute
