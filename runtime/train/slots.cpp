#include "runtime/train/slots.h"

#include <algorithm>

#include "platform/base/checked.h"

namespace graft::train {

SlotRange slots_of(std::uint64_t slots, std::uint64_t rank, std::uint64_t workers) {
  const std::uint64_t each = slots / workers;
  const std::uint64_t more = slots % workers;  // workers that have one more
  const std::uint64_t first = rank * each + (rank < more ? rank : more);
  return {first, each + (rank < more ? 1 : 0)};
}

std::pair<std::uint64_t, std::uint64_t> share_of_samples(const SlotExchange& exchange, std::uint64_t micro_batch,
                                                         std::uint64_t samples) {
  const SlotRange slots = exchange.share(ceil_div(samples, micro_batch));
  const std::uint64_t first = std::min(slots.first * micro_batch, samples);
  return {first, std::min((slots.first + slots.count) * micro_batch, samples) - first};
}

}  // namespace graft::train
