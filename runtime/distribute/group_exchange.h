// A trainer's slots among the workers of a group.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "platform/group/group.h"
#include "platform/os/clock.h"
#include "runtime/distribute/paces.h"
#include "runtime/distribute/parcels.h"
#include "runtime/distribute/slot_sum.h"
#include "runtime/distribute/slot_transfer.h"
#include "runtime/train/plan/slots.h"

namespace graft::distribute {

struct ExchangeOptions {
  /// The longest wait for the others to begin a step, and in its middle. Rank 0 may evaluate and save between steps.
  std::chrono::nanoseconds between_steps = group::kNoDeadline;
  std::chrono::nanoseconds within_step = group::kNoDeadline;
  /// Elements of all gradients together that are on their way at once: large ones are sent in pieces.
  std::uint64_t piece = std::uint64_t{1} << 22;
  Wire wire = Wire::f32;  ///< the same for all
  /// Slots are sent while the next ones are computed, by a thread of this exchange's own that calls the group
  /// meanwhile.
  bool overlap = false;
  /// Whoever is slower gets fewer slots from step to step: share() changes between two.
  bool moves_shares = false;
};

/// Where the others are waited for so long within a step: ten times as long between two, since worker 0 may evaluate
/// and save there. The same for all, so that all notice at once who stands still, and meet again.
ExchangeOptions deadlines_of(std::chrono::nanoseconds within_step);

/// Elements that one of so many workers adds at once.
std::uint64_t elements_to_sum(std::uint64_t gradient_bytes, std::uint64_t workers, const ExchangeOptions& options = {});

/// What a worker keeps of gradients in host memory, where it has so many of so many slots, at least one, and the others
/// have no more.
std::uint64_t host_bytes(std::uint64_t gradient_bytes, std::uint64_t workers, std::uint64_t own, std::uint64_t slots);

/// Piece j of the gradients goes from all workers to worker j, which adds all slots in their order; then everybody gets
/// the sums. A worker with one slot sends and receives about twice its gradients in a step, as in a ring.
///
/// Threads: the trainer's.
class GroupExchange : public train::SlotExchange {
 public:
  /// Group and device outlive it. `device`: of this worker's trainer.
  GroupExchange(group::Group& group, gpu::Device& device, const ExchangeOptions& options = {})
      : group_(group), device_(device), options_(options), parcels_(group), transfer_(group, of_transfer(options)) {}

  train::Share share() const override { return {group_.rank(), group_.size(), paces_.costs()}; }
  Status begin(Step& step) override;
  Status give(std::uint64_t slot, const train::SlotPart& part) override;
  Result<Sums> end() override;
  Status gather(std::span<const std::span<std::byte>> parts, bool to_first) override;
  std::span<const train::WorkerSection> sections() const override { return sections_; }
  /// Unless the others are still needed: differs(), a newcomer, or the run has ended.
  void leave(const Status& why) override {
    transfer_.stop();
    if (!differs_ && !lets_in_ && !ended_) group_.leave(why);
  }

  /// Worker 0 ends the run: the next begin() tells all.
  void end_run() { asks_end_ = true; }
  /// All have heard so.
  bool has_ended() const { return ended_; }
  /// When all have the state of worker 0, by it.
  void set_shared(double learning_rate, bool ended) {
    rate_ = learning_rate;
    ended_ = ended;
    asks_end_ = asks_end_ && group_.rank() == 0;
  }

  /// Whether the last step failed because some workers' parameters are not those of the others, worker 0 among them:
  /// share_state() brings these up to date.
  bool differs() const { return differs_; }

  /// Whether the last step failed because a worker is gone, or waits to come in, rather than because one gave up.
  bool has_lost_worker() const { return lost_; }
  /// Nobody is gone: somebody waits.
  bool lets_in() const { return lets_in_; }
  /// It was before the step that a worker went.
  void note_lost_worker() { lost_ = true; }
  /// The others that are left: see Group::reform().
  Status reform();

 private:
  static SlotTransfer::Options of_transfer(const ExchangeOptions& options) {
    return {options.wire, options.overlap, options.piece, options.within_step};
  }
  /// Notes whether a worker is gone.
  Status note(Status sent);
  Status check_same(const Step& mine, const Step& other, std::size_t rank) const;
  Status check_decisions(Step& step) const;
  Status check_states(const std::vector<std::uint64_t>& hashes);
  Status share_sums();
  void take_results();
  void end_section();
  std::uint64_t result_bytes() const;
  std::vector<std::uint64_t> all_slots() const;

  group::Group& group_;
  gpu::Device& device_;
  const ExchangeOptions options_;
  Parcels parcels_;
  SlotTransfer transfer_;
  Paces paces_;
  bool lost_ = false;
  bool differs_ = false;
  bool lets_in_ = false;  ///< reform() will let a newcomer in
  bool asks_end_ = false;
  bool ended_ = false;
  double rate_ = std::numeric_limits<double>::quiet_NaN();  ///< that all agreed on last
  std::unique_ptr<SlotSum> sum_;  // made for the first step: a group whose workers disagree takes no memory
  std::vector<train::WorkerSection> sections_;

  // Of the step in progress.
  Step step_;
  std::vector<std::uint64_t> slots_;  ///< by worker
  std::uint64_t given_ = 0;
  train::WorkerSection section_;  ///< this worker's; sums go on from step to step
  os::Stopwatch watch_;           ///< since the last call returned, or was made
  double computing_ = 0;          ///< seconds
  double waiting_ = 0;
  std::vector<std::byte> own_results_;  // metrics and statistics of each of this worker's slots
  std::vector<std::byte> told_;         // these and the section
  std::vector<std::byte> results_;      // of all slots
  std::vector<std::span<const std::byte>> statistics_;
  std::vector<std::byte> on_wire_;  // sums, where they are sent in another form
  std::vector<std::byte> sums_;
};

}  // namespace graft::distribute
