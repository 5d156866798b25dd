// What a build of graft must hold for one model, as GRAFT_OPS of its CMakeLists.txt takes it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "platform/gpu/target.h"
#include "runtime/core/op_use.h"
#include "runtime/model/model.h"
#include "runtime/plan/plan.h"

namespace graft {

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
std::string parts_text(const NeededParts& parts, const std::string& title);

/// Of a language model, else none: a plan of two tokens, which stand for any number of them (what depends on it is a
/// choice), and of one.
Result<std::vector<Plan>> decode_plans(const Model& model, const gpu::Target& target, DType precision);

}  // namespace graft
