// Calls that outlive the device that they began on.
#pragma once

#include <functional>

#include "platform/base/status.h"
#include "platform/gpu/gpu.h"

namespace graft {

/// Gives another device where this one is lost. Empty: nobody does, and the call is device_lost.
using Reopen = std::function<Result<gpu::Device*>(gpu::Device& lost)>;

/// Of one call: more would be the call's fault.
inline constexpr int kMostLosses = 3;

/// Repeats attempt(), a Status, after each recover(why) of a lost device. Without a function that opens it anew
/// (`reopen`), nothing is repeated.
template <typename Try, typename Recover>
Status through_losses(const auto& reopen, Try attempt, Recover recover) {
  for (int lost = 0;;) {
    Status result = attempt();
    if (result.code() != Code::device_lost || !reopen || ++lost > kMostLosses) return result;
    GRAFT_TRY(recover(result));
  }
}

}  // namespace graft
