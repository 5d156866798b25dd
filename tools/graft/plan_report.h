// A plan as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/plan/plan.h"

namespace graft::cli {

/// Classes of memory, the peak and where it is, saved values, the costliest nodes.
void print_plan(const Plan& plan, const std::string& title);

nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace graft::cli
