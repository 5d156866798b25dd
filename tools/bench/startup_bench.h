// graft bench startup: from a new process to the first training step, cold and warm, graft's own time and the driver's.
#pragma once

#include <string>

#include "tools/bench/device.h"
#include "tools/common/status.h"

namespace graft::cli {

/// Runs two processes one after the other that start training `model` on generated digits, with an empty cache folder
/// of their own: the first finds nothing compiled and tests its kernels, the second finds what the first left.
Status bench_startup(const DeviceFlags& flags, const std::string& model, bool json);

/// One of these processes: prints its times as JSON.
Status run_startup(const DeviceFlags& flags, const std::string& model);

}  // namespace graft::cli
