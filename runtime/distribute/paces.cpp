#include "runtime/distribute/paces.h"

#include <algorithm>

#include "runtime/train/plan/slots.h"

namespace graft::distribute {
namespace {

/// The first step compiles kernels.
constexpr std::uint64_t kFirstSteps = 1;

/// How long a step of so many slots takes, dealt by `dealt`, where a slot takes as long as `costs` says.
std::uint64_t longest(std::uint64_t slots, const std::vector<std::uint64_t>& dealt,
                      const std::vector<std::uint64_t>& costs) {
  train::Share share{0, costs.size(), dealt};
  std::uint64_t most = 0;
  for (; share.rank < share.workers; ++share.rank) {
    most = std::max(most, share.of(slots).count * costs[share.rank]);
  }
  return most;
}

}  // namespace

void Paces::note(std::span<const train::WorkerSection> sections) {
  if (steps_++ < kFirstSteps || sections.size() < 2) return;
  measured_.resize(sections.size());
  std::uint64_t slots = 0;
  for (std::size_t r = 0; r < sections.size(); ++r) {
    slots += sections[r].slots;
    if (sections[r].slots == 0) {
      measured_[r] -= measured_[r] / 32;  // in time it is tried again
      continue;
    }
    const std::uint64_t now = std::max<std::uint64_t>(sections[r].computing_ns / sections[r].slots, 1);
    measured_[r] = measured_[r] == 0 ? now : (measured_[r] + now) / 2;
  }
  std::uint64_t sum = 0, known = 0;
  for (const std::uint64_t cost : measured_) {
    sum += cost;
    known += cost != 0 ? 1 : 0;
  }
  if (known == 0) return;
  std::vector<std::uint64_t> costs = measured_;
  std::ranges::replace(costs, std::uint64_t{0}, sum / known);  // who has had no slot yet may be as fast as the others
  if (10 * longest(slots, costs, costs) < 9 * longest(slots, costs_, costs)) costs_ = costs;
}

}  // namespace graft::distribute
