// Who wants to see what a step does, and when: traces and their tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "platform/base/status.h"

namespace graft {

class Program;

/// What the host does for a step, in the order of a step. `wait` is for the device to finish; `report` is what comes
/// after the step: metrics, progress, checkpoints. Of several workers: `agree` is what they do before a step, the hash
/// of the parameters included, whose submission and waiting count there as well; `exchange` is gradients and sums.
enum class HostPhase : std::uint8_t {
  data,
  agree,
  upload,
  compile,
  record,
  refill,
  submit,
  wait,
  exchange,
  readback,
  report
};
inline constexpr std::string_view kHostPhaseNames[] = {"data",   "agree", "upload",   "compile",  "record", "refill",
                                                       "submit", "wait",  "exchange", "readback", "report"};

/// Device time of one step of a plan, in seconds of the device's clock, which begins anywhere.
struct StepTime {
  std::uint32_t step = 0;  ///< index into Plan::steps
  double begin = 0;
  double end = 0;
};

/// Given in ProgramOptions::observer; must outlive the programs. Threads: called on the device's. May allocate.
class RunObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~RunObserver() = default;
  virtual void phase(HostPhase phase, Time begin, Time end) = 0;
  /// A run is complete: Program::step_times() gives the times of this one.
  virtual Status ran(Program& program) = 0;
  /// The program is about to go; another may get its address.
  virtual void closing(const Program& program) = 0;
};

/// Tells an observer, where there is one, of a phase that ends with the scope.
class PhaseScope {
 public:
  PhaseScope(RunObserver* observer, HostPhase phase) : observer_(observer), phase_(phase) {
    if (observer_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~PhaseScope() {
    if (observer_ != nullptr) observer_->phase(phase_, begin_, std::chrono::steady_clock::now());
  }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  RunObserver* observer_;
  HostPhase phase_;
  RunObserver::Time begin_;
};

}  // namespace graft
