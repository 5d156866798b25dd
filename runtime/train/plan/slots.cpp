#include "runtime/train/plan/slots.h"

#include <algorithm>
#include <numeric>

#include "platform/base/checked.h"

namespace graft::train {

SlotRange Share::of(std::uint64_t slots) const {
  if (!costs.empty()) {
    // Each slot goes to whoever would end it first. Which ones they are follows the ranks.
    std::vector<std::uint64_t> counts(workers, 0);
    for (std::uint64_t i = 0; i < slots; ++i) {
      std::uint64_t next = 0;
      for (std::uint64_t r = 1; r < workers; ++r) {
        if ((counts[r] + 1) * costs[r] < (counts[next] + 1) * costs[next]) next = r;
      }
      ++counts[next];
    }
    return {std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::uint64_t{0}),
            counts[rank]};
  }
  const std::uint64_t each = slots / workers;
  const std::uint64_t more = slots % workers;  // workers that have one more
  return {rank * each + std::min(rank, more), each + (rank < more ? 1 : 0)};
}

std::pair<std::uint64_t, std::uint64_t> Share::of_samples(std::uint64_t micro_batch, std::uint64_t samples) const {
  const SlotRange slots = of(ceil_div(samples, micro_batch));
  const std::uint64_t first = std::min(slots.first * micro_batch, samples);
  return {first, std::min((slots.first + slots.count) * micro_batch, samples) - first};
}

}  // namespace graft::train
