// What a build may leave out (GRAFT_WITHOUT of tools/cmake/GraftFeatures.cmake), and what it says of it.
#pragma once

#include <string_view>

#include "platform/base/status.h"
#include "runtime/core/features.gen.h"
#include "runtime/core/without.gen.h"

namespace graft {

/// The refusal of what this build is without: `what` in the plural, `feature` as GRAFT_WITHOUT names it.
inline Status left_out(std::string_view what, std::string_view feature) {
  return unsupported("This build of graft is without ", what, " (GRAFT_WITHOUT=", feature, ").");
}

}  // namespace graft
