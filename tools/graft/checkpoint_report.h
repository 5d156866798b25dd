// What `graft checkpoint` prints of a store.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/checkpoint/store.h"
#include "tools/common/status.h"

namespace graft::cli {

void print(const nlohmann::ordered_json& json);

/// A line for each snapshot.
Status print_list(const checkpoint::Store& store, bool json);

/// A line for each stream that is not the same in snapshots a and b.
Status print_diff(const checkpoint::Store& store, std::uint64_t a, std::uint64_t b, bool json);

}  // namespace graft::cli
