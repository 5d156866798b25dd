// Other adapters on what runs: of a session or a generator, from a path or a source.
#pragma once

#include "runtime/c_api/c_source.h"

namespace graft::c_api {

// Adapters are read whole in any case.
inline constexpr LoadOptions kAtOnce = {.check = WeightCheck::at_once};

/// Swaps the adapters of a session or a generator by swap(adapters or nullptr).
template <typename Swap>
Status swap_from(graft_context& context, const char* path, Swap swap) {
  if (path == nullptr) return swap(nullptr);
  GRAFT_TRY_ASSIGN(const Model adapters, load_model(*context.files, path, kAtOnce));
  return swap(&adapters);
}

template <typename Swap>
Status swap_from(graft_context& context, const graft_source* source, Swap swap) {
  GRAFT_TRY_ASSIGN(const Model adapters, load_source(context, source, kAtOnce));
  return swap(&adapters);
}

}  // namespace graft::c_api
