// Several workers of one run, and the one thing that they do together.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "platform/base/status.h"

namespace graft::group {

using OutParts = std::span<const std::span<const std::byte>>;
using InParts = std::span<const std::span<std::byte>>;

/// No deadline: for workers that cannot vanish.
inline constexpr std::chrono::nanoseconds kNoDeadline = std::chrono::nanoseconds::max();

/// One worker's end of a group. All workers make the same calls in the same order, with parts whose sizes they agree
/// upon beforehand.
///
/// Threads: exchange() from one at a time; leave() from any.
class Group {
 public:
  virtual ~Group() = default;
  virtual std::size_t rank() const = 0;  ///< 0 to size() - 1
  virtual std::size_t size() const = 0;

  /// Gives out[r] to worker r and takes in[r] from it, for every r, itself included; of several parts for each, part p
  /// is [p * size() + r]. Returns once `out` may change.
  /// Where it fails, nothing that came may be used, and this and every later call of all workers fails: timeout names
  /// those that did not come within `deadline`; what leave() said; invalid_argument where sizes differ.
  virtual Status exchange(OutParts out, InParts in, std::chrono::nanoseconds deadline) = 0;

  /// After exchange() has failed because a worker is gone, or where somebody waits: those that are left meet again,
  /// with new ranks in the order of the old ones, newcomers behind them. unsupported where the group ends with its
  /// first failure.
  virtual Status reform() { return error(Code::unsupported, "These workers cannot go on without one of them."); }

  /// Worker 0: whether somebody wants to take part, who may come in by reform(). Does not wait.
  virtual bool somebody_waits() { return false; }

  /// This worker makes no further call: exchanges of the others that it has not joined fail, and say why. The first
  /// word counts.
  virtual void leave(const Status& why) = 0;
};

}  // namespace graft::group
