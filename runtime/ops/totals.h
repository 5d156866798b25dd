// One result of all elements of a node's inputs: partial results by workgroup in a fixed order, then their total.
#pragma once

#include <algorithm>
#include <vector>

#include "platform/base/checked.h"
#include "runtime/ops/movement.h"
#include "shaders/optimizer/state_hash_push.h"

namespace graft {

inline constexpr std::uint64_t kElementsPerTotalGroup = 8192;  // at least
inline constexpr std::uint64_t kMaxTotalGroups = 64;           // partial results of one tensor

/// Tells equal elements at different places apart (see state_hash.comp).
inline std::uint32_t hash_key(std::uint64_t input, std::uint64_t first) {
  return static_cast<std::uint32_t>(first * push::kHashElement + input * push::kHashTensor);
}

/// A run of elements of one input that fits a binding.
struct InputPart {
  std::size_t input;
  std::uint64_t first;
  std::uint64_t count;
};

inline Result<std::vector<InputPart>> parts_of_inputs(Emitter& e) {
  std::vector<InputPart> parts;
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    GRAFT_TRY(for_each_tile(e, e.in_shape(i).elements(), [&](std::uint64_t first, std::uint64_t n) {
      parts.push_back({i, first, n});
      return ok_status();
    }));
  }
  return parts;
}

/// All inputs to one result of `words` words: partial results by workgroup, in a fixed order, then their total.
template <typename Push>
Status emit_total(Emitter& e, shaders::KernelId partial, shaders::KernelId total, std::uint64_t words) {
  GRAFT_TRY_ASSIGN(const std::vector<InputPart> parts, parts_of_inputs(e));
  if (parts.empty()) return emit_fill(e, e.out(), words, 0);
  // Every part owns a run of partial results that starts where a binding may start.
  const std::uint64_t slots = std::max<std::uint64_t>(kMaxTotalGroups, e.caps().storage_buffer_alignment / 4);
  const Slot sums = e.scratch(4 * words * slots * parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [input, first, n] = parts[i];
    const std::uint64_t groups = std::clamp<std::uint64_t>(n / kElementsPerTotalGroup, 1, kMaxTotalGroups);
    const std::uint64_t per_group = ceil_div(n, groups);
    Push push{};
    GRAFT_TRY_ASSIGN(push.count, count32(n, "tensor"));
    push.per_group = static_cast<std::uint32_t>(per_group);
    push.groups = static_cast<std::uint32_t>(ceil_div(n, per_group));
    push.slots = static_cast<std::uint32_t>(slots);
    e.dispatch(partial, {},
               {part_of(e.in(input), first, n), part_of({sums, Access::write}, words * i * slots, words * slots)}, push,
               e.spread(push.groups));
  }
  Push push{};
  GRAFT_TRY_ASSIGN(push.count, count32(slots * parts.size(), "list of partial results"));
  e.dispatch(total, {}, {{sums, Access::read}, e.out()}, push, {1, 1, 1});
  return ok_status();
}

}  // namespace graft
