// One result of all elements of a node's inputs: partial results by workgroup in a fixed order, then their total.
#pragma once

#include <algorithm>
#include <vector>

#include "platform/base/checked.h"
#include "runtime/ops/movement.h"
#include "shaders/optimizer/totals_push.h"

namespace graft {

inline constexpr std::uint64_t kElementsPerTotalGroup = 8192;  // at least
inline constexpr std::uint64_t kMaxTotalGroups = 64;           // of one tensor

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

/// All inputs to one result of `words` words: partial results by invocation, in a fixed order, then their total.
inline Status emit_total(Emitter& e, shaders::KernelId partial, shaders::KernelId total, std::uint64_t words) {
  GRAFT_TRY_ASSIGN(const std::vector<InputPart> parts, parts_of_inputs(e));
  if (parts.empty()) return emit_fill(e, e.out(), words, 0);
  constexpr std::uint64_t kVector = 4;  // words that kernels read at once
  std::vector<push::TotalsPush> pushes;
  std::uint64_t groups = 0;
  for (const auto& [input, first, n] : parts) {
    push::TotalsPush push{.key = hash_key(input, first)};
    GRAFT_TRY_ASSIGN(push.count, count32(n, "tensor"));
    const std::uint64_t most = std::clamp<std::uint64_t>(n / kElementsPerTotalGroup, 1, kMaxTotalGroups);
    push.per_group = static_cast<std::uint32_t>(align_up(ceil_div(n, most), kVector));
    push.groups = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(n, push.per_group));
    groups += push.groups;
    pushes.push_back(push);
  }
  // A workgroup's results take more than the alignment at which a binding may start.
  const std::uint64_t of_group = words * push::kTotalsInvocations;
  const Slot sums = e.scratch(4 * of_group * groups);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [input, first, n] = parts[i];
    e.dispatch(
        partial, {},
        {part_of(e.in(input), first, n), part_of({sums, Access::write}, of_group * begin, of_group * pushes[i].groups)},
        pushes[i], e.spread(pushes[i].groups));
    begin += pushes[i].groups;
  }
  push::TotalsPush push{};
  GRAFT_TRY_ASSIGN(push.count, count32(groups * push::kTotalsInvocations, "list of partial results"));
  e.dispatch(total, {}, {{sums, Access::read}, e.out()}, push, {1, 1, 1});
  return ok_status();
}

}  // namespace graft
