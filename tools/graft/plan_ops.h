// graft plan --ops: what a build of graft must hold for one model, as GRAFT_OPS of its CMakeLists.txt takes it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "platform/gpu/target.h"
#include "runtime/core/op_use.h"
#include "runtime/plan/plan.h"
#include "tools/common/status.h"

namespace graft::cli {

struct NeededParts {
  std::set<std::string> ops;  ///< of all graphs on the way from the model to its plans
  std::set<std::string>
      kernels;  ///< of the plans, and those that graft takes for other shapes or where one fails its test
};

/// All plans of what the library is to do, on such a device.
using PlanAll = std::function<Result<std::vector<Plan>>(const gpu::Target&)>;

/// For all of these devices. Ops of graphs that were made on this thread in the life of the OpUse `seen` count too.
Result<NeededParts> needed_parts(const std::vector<gpu::Target>& targets, const PlanAll& plan_all, const OpUse& seen);

/// Every GPU that graft knows the limits of, a CPU, and the least that Vulkan guarantees.
std::vector<gpu::Target> known_targets();

/// The text of the file; `title` is a sentence.
std::string ops_text(const NeededParts& parts, const std::string& title);

}  // namespace graft::cli
