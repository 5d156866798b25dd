// The gradients of slots on their way to whoever adds them up, and the sums back.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "platform/group/group.h"
#include "runtime/distribute/wire.h"
#include "runtime/exec/capture.h"

namespace graft::distribute {

/// Worker j gets elements j / N to (j + 1) / N of every slot. In round i all who have so many give their slot i, a
/// piece at a time; with a thread, while the next one is computed, and no more than two are kept for it. Checksums
/// follow: a part that was changed on the way goes into no sum.
///
/// Threads: one; its own calls Group::exchange() between begin() and end() or stop().
class SlotTransfer {
 public:
  struct Options {
    Wire wire = Wire::f32;
    bool overlap = false;
    std::uint64_t piece = 0;  ///< elements on their way at once, of all workers' together
    std::chrono::nanoseconds deadline = group::kNoDeadline;
  };
  /// The group outlives it.
  SlotTransfer(group::Group& group, const Options& options) : group_(&group), options_(options) {}
  ~SlotTransfer() { stop(); }
  SlotTransfer(const SlotTransfer&) = delete;
  SlotTransfer& operator=(const SlotTransfer&) = delete;

  /// A step's slots, by worker, each of so many elements.
  Status begin(std::vector<std::uint64_t> slots, std::uint64_t elements);
  /// This worker's next one. Waits for room. What has failed meanwhile fails here. It is copied; where no worker has
  /// more than one, and its tensors stand one behind the other, it is read where it is until end() has returned.
  Status give(std::span<const Capture::Entry> gradients);
  /// After the last: this worker's elements of all slots, in the slots' order and in the form of the wire, until the
  /// next begin(); those of its own as long as what it gave.
  Result<std::span<const std::span<const std::byte>>> end();
  /// Everybody's elements of the sum: the own ones are there, in the form of the wire, and the others' come.
  Status spread(std::span<std::byte> sums);
  /// Returns once nothing is under way. The others wait for what does not come until they hear of it.
  void stop();

  /// In the form of the wire: where the elements of a worker begin.
  std::uint64_t begin_of(std::uint64_t worker) const;
  std::uint64_t own_bytes() const;

 private:
  Status transfer();
  Status pack_parts(std::span<const Capture::Entry> gradients);
  Status send_round(std::uint64_t round, std::span<const std::byte> own);
  Status send_checksums(std::span<const std::span<const std::byte>> given, std::span<const std::span<std::byte>> taken);
  bool lend(std::span<const Capture::Entry> gradients);
  std::uint64_t first_element(std::uint64_t worker) const;
  std::uint64_t first_slot(std::size_t worker) const;
  std::uint64_t piece_bytes() const;

  group::Group* group_;
  Options options_;
  std::vector<std::uint64_t> slots_;  ///< by worker
  std::uint64_t elements_ = 0;
  std::vector<std::vector<std::byte>> own_;       ///< slots of this worker that are still to be sent, a ring
  std::span<const std::byte> lent_;               ///< the only slot of this worker, where it is read in place
  std::vector<std::vector<std::byte>> received_;  ///< by slot
  std::vector<std::span<const std::byte>> views_;

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t given_ = 0;   ///< slots of this worker
  std::uint64_t rounds_ = 0;  ///< that are done
  bool stopping_ = false;
  bool overlaps_ = false;  ///< in this step
  Status failed_;
};

}  // namespace graft::distribute
