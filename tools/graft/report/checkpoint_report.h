// What `graft checkpoint` prints of a store.
#pragma once

#include <string>

#include "graft/snapshots.h"
#include "tools/common/status.h"

namespace graft::cli {

/// A line for each snapshot.
Status print_list(graft_store* store, const graft_context* context, bool json);

/// A line for each worker of each snapshot, and of the last journalled step.
Status print_workers(graft_store* store, const graft_context* context, bool json);

/// A line for each stream that is not the same in snapshots a and b.
Status print_diff(graft_store* store, const graft_context* context, const graft_snapshot& a, const graft_snapshot& b,
                  bool json);

}  // namespace graft::cli
