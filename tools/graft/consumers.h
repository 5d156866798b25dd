// What took most of a run's time and memory, side by side.
#pragma once

#include <string>
#include <vector>

#include "tools/graft/profile.h"

namespace graft::cli {

/// A node, all nodes of an op, or the copies.
struct Consumer {
  std::string name;
  std::string op;
  std::uint64_t calls = 0;  ///< dispatches or copies, of all steps
  double seconds = 0;       ///< on the device, of all steps
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;       ///< read and written
  std::uint64_t peak_bytes = 0;  ///< of the memory in use at the fullest moment: results and scratch memory
  std::uint64_t nodes = 0;
};

struct Consumers {
  std::size_t steps = 0;
  double step_seconds = 0;    ///< of all steps, from asking for a batch to asking for the next
  double device_seconds = 0;  ///< of these, in dispatches and copies
  double host_seconds[std::size(kHostPhaseNames)] = {};
  std::uint64_t dispatches = 0, barriers = 0, submissions = 0;  ///< of all steps
  std::uint64_t arena_at_peak = 0;                              ///< live bytes; the sum of peak_bytes
  std::uint64_t resident_bytes = 0;                             ///< device and staging memory that stays
  std::string peak_node;
  std::vector<Consumer> nodes;  ///< by falling time
  std::vector<Consumer> ops;    ///< the same, by op
};

Consumers consumers_of(const Profile& profile);
void print_consumers(const Consumers& consumers, const Profile& profile);

}  // namespace graft::cli
