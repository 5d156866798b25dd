// A training plan, and what stands on the device for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/capture.h"
#include "runtime/exec/host_state.h"
#include "runtime/exec/program.h"
#include "runtime/train/plan/replan.h"
#include "runtime/train/run/execution.h"
#include "runtime/train/run/feeder.h"
#include "runtime/train/run/fetched_values.h"

namespace graft::train {

/// A program for one number of samples, and what feeds it.
struct SizedProgram {
  std::int64_t samples = 0;
  std::unique_ptr<Program> program;
  Feeder feeder;
  LossNodes loss = {};  ///< ids are indices of PlanPort::value
};

/// Memory and programs of a plan. Can be given up for another plan: the state goes by way of the host. Where that fails
/// half way there is a plan but nothing on the device, and the state waits with the host for the next build().
class PlannedRun {
 public:
  /// Setup and execution must outlive it.
  PlannedRun(const TrainingSetup& setup, Execution& execution, TrainingPlan plan)
      : setup_(setup), execution_(execution), plan_(std::move(plan)) {}

  const TrainingPlan& plan() const { return plan_; }
  void set_plan(TrainingPlan plan) { plan_ = std::move(plan); }

  /// Allocates, writes the state (what was kept, else the model's), compiles. Kernels are proven first, and planned
  /// around where they are wrong. Where the device does not have the memory, the plan becomes a smaller one, and a
  /// smaller one, as long as there is any.
  Status build(bool within_step);
  bool is_built() const { return memory_ != nullptr; }

  /// Copies all that training changes to the host, for the next build().
  Status keep_state();
  /// The same where the device may refuse the memory that it takes: then programs that are made on demand go.
  Status keep_state_in_shortage();
  void tear_down();

  /// Copies the same to where a build() finds it that no keep_state() came before, since the device was lost. On
  /// failure the copy before stays.
  Status copy_to_host();
  /// Writes a value of this size, to that copy as well where there is one.
  Status write(std::string_view name, std::span<const std::byte> bytes);
  /// What the next build() takes is of keep_state().
  bool has_kept() const { return !kept_.empty(); }

  // From here on: of a run that is built.
  Memory& memory() { return *memory_; }
  /// For so many samples; planned and compiled where they are new.
  Result<SizedProgram*> training(std::int64_t samples);
  Result<SizedProgram*> evaluation(std::int64_t samples);
  void drop_evaluation() { evaluation_.clear(); }
  Program* update() { return update_.get(); }  ///< null: each micro-batch is a step
  Program* hash() { return hash_.get(); }      ///< null: not asked for
  Capture* capture() { return capture_.get(); }
  const Capture* capture() const { return capture_.get(); }
  Capture* statistics() { return statistics_.get(); }  ///< null: a step that fails leaves them alone
  Capture* gradients() { return gradients_.get(); }    ///< of a slot; null: there are none
  /// Moves running statistics by what a slot of so many samples gave.
  Result<Program*> statistics_of_slot(std::int64_t samples);
  FetchedValues& fetched() { return fetched_; }
  const FetchedValues& fetched() const { return fetched_; }
  std::uint64_t device_bytes() const;  ///< 0: not built

 private:
  Status copy_residents(HostState& to);
  Status prove(bool within_step);
  Status build_once(bool within_step);
  Status load_residents();
  Result<SizedProgram> make_program(SizedPlan sized);

  const TrainingSetup& setup_;
  Execution& execution_;
  TrainingPlan plan_;
  HostState kept_;       ///< state on its way from one plan to the next
  HostState host_copy_;  ///< of copy_to_host(); empty where nobody asks for it
  HostState next_copy_;  ///< the device may be lost while it is made
  std::unique_ptr<Memory> memory_;
  std::vector<SizedProgram> training_;
  std::vector<SizedProgram> evaluation_;
  std::unique_ptr<Program> update_;
  std::unique_ptr<Program> hash_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Capture> statistics_;
  std::unique_ptr<Capture> gradients_;
  std::vector<std::pair<std::int64_t, std::unique_ptr<Program>>> slot_statistics_;  ///< by samples
  FetchedValues fetched_;
};

}  // namespace graft::train
