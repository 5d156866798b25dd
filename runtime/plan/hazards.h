// Checks of a finished plan, by other means than those that made it. For tests and debug builds: they take time.
#pragma once

#include "platform/base/status.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Every two steps that touch the same bytes, one of them writing, have a barrier between them.
/// An internal error names the two steps and the bytes.
Status check_hazards(const Plan& plan);

/// No two values overlap while both are alive, nothing lies outside its space or across a segment, and every byte that
/// a step reads was last written as the value that it is read as.
Status check_memory(const Plan& plan);

}  // namespace graft
