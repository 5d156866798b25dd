// Cutting a dispatch along an outermost axis, so that no binding exceeds what a device can bind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "runtime/ops/movement.h"

namespace graft {

/// How many items (images, rows) one part takes: all of them where every tensor fits a binding. words_per_item has a
/// number for each tensor that is cut (0: the tensor is the same for all items). Parts begin at offsets that the device
/// can bind. An error where not even the fewest such items fit; `what` names the items there.
Result<std::uint64_t> items_per_part(const gpu::Caps& caps, std::uint64_t items,
                                     std::initializer_list<std::uint64_t> words_per_item, std::string_view what);

/// Items [first, first + count) of a tensor; the whole binding where it is not cut, or has no words per item because it
/// is the same for all.
inline Binding items_of(const Binding& whole, std::uint64_t first, std::uint64_t count, std::uint64_t items,
                        std::uint64_t words_per_item) {
  return count == items || words_per_item == 0 ? whole : part_of(whole, first * words_per_item, count * words_per_item);
}

/// Calls run(first, count) for each part, in order; run returns a Status.
template <typename Run>
Status for_each_part(std::uint64_t items, std::uint64_t per_part, Run run) {
  for (std::uint64_t first = 0; first < items; first += per_part) {
    GRAFT_TRY(run(first, std::min(per_part, items - first)));
  }
  return ok_status();
}

}  // namespace graft
