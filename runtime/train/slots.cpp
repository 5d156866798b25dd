#include "runtime/train/slots.h"

#include <algorithm>

#include "platform/base/checked.h"

namespace graft::train {

SlotRange Share::of(std::uint64_t slots) const {
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
