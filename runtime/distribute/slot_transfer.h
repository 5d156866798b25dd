// The gradients of slots on their way to whoever adds them up, and the sums back.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "platform/group/group.h"
#include "platform/os/threads.h"
#include "runtime/distribute/parcels.h"
#include "runtime/distribute/wire.h"
#include "runtime/exec/capture.h"

namespace graft::distribute {

/// Worker j gets elements j / N to (j + 1) / N of every slot. In round i all who have so many give their slot i, a
/// piece at a time; with a thread, while the next one is computed, and no more than two are kept for it. The last round
/// comes in end(): a piece is added up as soon as it has come, and its sum goes to everybody with the next one. So
/// little is kept of it, and what has come is added up while it is still in the processor's caches.
///
/// Checksums go along with every piece: what was changed on the way goes into no sum.
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
  SlotTransfer(group::Group& group, const Options& options) : group_(&group), options_(options), notes_(group) {}
  ~SlotTransfer() { stop(); }
  SlotTransfer(const SlotTransfer&) = delete;
  SlotTransfer& operator=(const SlotTransfer&) = delete;

  /// A step's slots, by worker, each of so many elements.
  Status begin(std::vector<std::uint64_t> slots, std::uint64_t elements);
  /// This worker's next one. Waits for room. What has failed meanwhile fails here. It is copied; where no worker has
  /// more than one, and its tensors stand one behind the other, it is read where it is until end() has returned.
  Status give(std::span<const Capture::Entry> gradients);

  struct Sum {
    /// The sum of a piece of all slots, in their order; all in the form of the wire.
    std::function<Status(std::span<const std::span<const std::byte>> slots, std::span<std::byte> out)> add;
    bool in_blocks = false;  ///< or of a small part of a piece: it costs nothing to ask often
    /// Asked before the last exchange: what this worker tells everybody with it,
    std::function<std::span<const std::byte>()> last;
    /// and how many bytes worker r tells.
    std::span<const std::uint64_t> last_bytes;
  };
  /// After the last slot. `sums`: everybody's elements of the sum, in the form of the wire.
  Status end(const Sum& sum, std::span<std::byte> sums);
  /// What that worker told with the last exchange, until the next begin().
  std::span<const std::byte> last(std::size_t worker) const;

  /// Returns once nothing is under way. The others wait for what does not come until they hear of it.
  void stop();
  /// Once the group has other workers.
  void reset() { notes_ = Parcels(*group_); }

 private:
  /// What goes and comes in one exchange, by rank.
  struct Trade {
    explicit Trade(std::size_t workers) : given(workers), taken(workers), sums(workers) {}
    std::vector<std::span<const std::byte>> given;  ///< of a slot
    std::vector<std::span<std::byte>> taken;
    std::span<const std::byte> own_sum;  ///< to everybody
    std::uint64_t own_checksum = 0;
    std::vector<std::span<std::byte>> sums;
    std::span<const std::byte> last;
    std::span<const std::uint64_t> last_bytes;
  };
  /// Checksums, for each.
  struct Note {
    std::uint64_t given = 0;
    std::uint64_t own_sum = 0;
  };
  static constexpr std::size_t kParts = 3;  ///< of a slot, of the sums, the note

  Status send_earlier_rounds();
  Status send_round(std::uint64_t round);
  void set_slots(Trade& trade, std::uint64_t round, std::uint64_t at);
  void set_sums(Trade& trade, std::span<std::byte> sums, std::uint64_t at);
  Status trade(const Trade& trade);
  Status add_piece(const Sum& sum, std::uint64_t at, std::span<std::byte> out, std::uint64_t& checksum);
  Status check_slots(std::span<const std::uint64_t> came) const;
  Note note_of(std::size_t worker) const;
  Status changed(std::size_t worker) const;
  Status pack_parts(std::span<const Capture::Entry> gradients);
  bool lend(std::span<const Capture::Entry> gradients);
  std::span<const std::byte> own_slot(std::uint64_t round) const;
  std::uint64_t rounds() const;
  std::uint64_t first_slot(std::size_t worker) const;
  std::uint64_t first_element(std::uint64_t worker) const;
  /// In the form of the wire.
  std::uint64_t begin_of(std::uint64_t worker) const;
  std::uint64_t own_bytes() const;
  std::uint64_t piece_bytes() const;
  std::pair<std::uint64_t, std::uint64_t> piece_of(std::size_t worker, std::uint64_t at) const;

  group::Group* group_;
  Options options_;
  Parcels notes_;
  std::vector<std::uint64_t> slots_;  ///< by worker
  std::uint64_t elements_ = 0;
  std::vector<std::vector<std::byte>> own_;       ///< slots of this worker that are still to be sent, a ring
  std::span<const std::byte> lent_;               ///< the only slot of this worker, where it is read in place
  std::vector<std::vector<std::byte>> received_;  ///< by slot; of others' in the last round a piece
  std::vector<std::span<const std::byte>> out_;
  std::vector<std::span<std::byte>> in_;

  os::Thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t given_ = 0;   ///< slots of this worker
  std::uint64_t rounds_ = 0;  ///< that are done
  bool stopping_ = false;
  bool overlaps_ = false;  ///< in this step
  Status failed_;
};

}  // namespace graft::distribute
