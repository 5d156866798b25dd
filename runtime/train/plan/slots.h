// Steps that several workers take together.
//
// Slot k of a step is its micro-batch k. Whoever computes a slot does so as if it were alone: its gradients begin at
// nothing, running statistics are noted and not moved. Then all workers add the gradients of all slots up in the order
// of the slots, move the statistics by each slot in the same order, and take the step. Nothing of that depends on who
// computed what: a run of N workers ends with the bits of a run of one. A step that one worker began alone, before the
// others came, all of them end alone, on the whole batch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/exec/capture.h"
#include "runtime/train/plan/worker_section.h"
#include "runtime/train/step/loss_terms.h"
#include "runtime/train/step/step_result.h"

namespace graft::train {

/// Consecutive slots.
struct SlotRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Which worker has which slots.
struct Share {
  std::uint64_t rank = 0;
  std::uint64_t workers = 1;
  /// By worker, what a slot takes it beside the others; empty: the same for all.
  std::vector<std::uint64_t> costs = {};

  /// Of a step of so many, the same for whoever asks: whoever takes longest takes as short as can be. Of workers that
  /// are as fast, later ones have less.
  SlotRange of(std::uint64_t slots) const;
  /// The samples that these consist of, in a batch of so many: the first and their number.
  std::pair<std::uint64_t, std::uint64_t> of_samples(std::uint64_t micro_batch, std::uint64_t samples) const;
};

/// What one slot gave. Borrowed for a call.
struct SlotPart {
  Metrics metrics;                            ///< without the count
  std::span<const std::byte> statistics;      ///< as TrainingPlan::statistics takes them
  std::span<const Capture::Entry> gradients;  ///< f32
};

/// How a trainer meets the others: the same calls in the same order by all of them. An error of any call is the step's,
/// and the trainer's last.
class SlotExchange {
 public:
  virtual ~SlotExchange() = default;

  /// This worker's.
  virtual Share share() const = 0;

  /// What all workers must agree upon to begin a step.
  struct Step {
    std::uint64_t number = 0;
    std::uint64_t samples = 0;  ///< of the whole batch
    std::uint64_t slots = 0;
    std::uint64_t state_hash = 0;        ///< of parameters and running statistics, before it
    std::uint64_t gradient_bytes = 0;    ///< of a slot
    std::uint64_t statistics_bytes = 0;  ///< of a slot
    LossWeights weights;                 ///< what the loss is a mean over: this worker's, then those of all
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t place = 0;      ///< samples of the epoch before the batch
    std::uint64_t precision = 0;  ///< of numbers and of products
    /// Before begin() this worker's, then worker 0's, which counts for all: a worker that set another one itself is an
    /// error. The same holds for the monitors, which worker 0's evaluations move.
    double learning_rate = 0;
    std::array<MonitorState, kMonitors> monitors = {};
    std::uint64_t evaluated_at = 0;
    std::uint64_t ends = 0;         ///< the run ends before this step
    std::uint64_t newcomers = 0;    ///< worker 0: somebody wants to take part
    std::uint64_t wants_whole = 0;  ///< worker 0: it needs the optimizer's state of all once the step is taken
    // Not agreed upon: of this worker, for its section.
    std::uint64_t first_sample = 0;  ///< of the batch
    std::uint64_t own_samples = 0;
    double own_weight = 0;
  };
  /// cancelled where the run ends before it.
  virtual Status begin(Step& step) = 0;
  /// One of this worker's slots is computed.
  virtual Status give(std::uint64_t slot, const SlotPart& part) = 0;
  /// After the last: waits for the others. What all slots gave, for as long as until the next call.
  struct Sums {
    Metrics metrics;                                         ///< in the order of slots, without the count
    std::span<const std::span<const std::byte>> statistics;  ///< by slot
    std::span<const std::byte> gradients;                    ///< as the entries of SlotPart stand, one after another
  };
  virtual Result<Sums> end() = 0;
  /// parts[r] is worker r's: what this one has is there, the others' come, all of sizes that are known to all; with
  /// `to_first` to worker 0 alone.
  virtual Status gather(std::span<const std::span<std::byte>> parts, bool to_first) = 0;
  /// By rank, of the last step that end() was asked for; empty before the first.
  virtual std::span<const WorkerSection> sections() const = 0;
  /// This worker takes no further step.
  virtual void leave(const Status& why) = 0;
};

}  // namespace graft::train
