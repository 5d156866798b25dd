// A run as a trace that chrome://tracing and ui.perfetto.dev open.
#pragma once

#include <string>

#include "tools/common/status.h"
#include "tools/graft/consumers.h"

namespace graft::cli {

/// Tracks: steps, dispatches and copies of the device with FLOP/s and bytes per second; the memory in use; what the
/// host does. The table of consumers stands under "otherData". Prints nothing; replaces the file atomically.
Status write_trace(const std::string& path, const Profile& profile, const Consumers& consumers);

}  // namespace graft::cli
