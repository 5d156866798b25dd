// What the last steps of a run did on the device and on the host, kept for traces and tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "platform/os/file.h"
#include "runtime/exec/program.h"

namespace graft {

/// Of the host's clock, whose zero means nothing.
inline double seconds_of(RunObserver::Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// Keeps the last steps. A step begins when the host asks for a batch; a run without data is one step.
class RunProfile final : public RunObserver {
 public:
  struct Phase {
    HostPhase phase{};
    Time begin;
    Time end;
  };
  struct Run {
    std::size_t plan = 0;  ///< index into plans()
    std::vector<StepTime> times;
    std::uint32_t submissions = 0;
  };
  struct StepTrace {
    std::uint64_t number = 0;
    Time begin;
    Time end;
    std::vector<Phase> phases;
    std::vector<Run> runs;

    double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
  };

  /// `steps` are kept; the first that comes is called `first`.
  explicit RunProfile(std::size_t steps, std::uint64_t first = 1) : most_(steps), next_(first) {}

  void phase(HostPhase phase, Time begin, Time end) override;
  Status ran(Program& program) override;
  void closing(const Program& program) override;

  /// What happens until resume() is no part of a step: evaluation, samples.
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }
  /// Sets the next step's number, for a run that goes on where another ended.
  void set_next(std::uint64_t number) { next_ = number; }

  /// The steps with a complete run on the device, the oldest first.
  std::vector<const StepTrace*> steps() const;
  const std::vector<Plan>& plans() const { return plans_; }
  /// The host's clock at the device's zero, in seconds; half way between the earliest time that submissions allow and
  /// the latest that waits allow.
  double device_offset() const;
  /// The host's time in a phase, including what came before the first step.
  double seconds_in(HostPhase phase) const { return totals_[static_cast<std::size_t>(phase)]; }

 private:
  StepTrace& current(Time begin);

  std::size_t most_;
  std::uint64_t next_;
  bool paused_ = false;
  bool began_ = false;  ///< a batch was asked for
  std::vector<StepTrace> steps_;
  std::vector<Plan> plans_;
  std::vector<std::pair<const Program*, std::size_t>> known_;  ///< those that run, with their plans: a few
  bool submitted_ = false;
  Time first_submit_;
  Time last_wait_;
  double earliest_ = -1e300;
  double latest_ = 1e300;
  double totals_[std::size(kHostPhaseNames)] = {};
};

/// A node, all nodes of an op, or the copies.
struct Consumer {
  std::string name;
  std::string op;
  std::uint64_t calls = 0;  ///< dispatches or copies, of all steps
  double seconds = 0;       ///< on the device, of all steps
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;       ///< read and written
  std::uint64_t peak_bytes = 0;  ///< of the memory in use at the fullest moment: results and scratch memory
  std::uint64_t nodes = 0;
};

/// What took most of a run's time and memory, side by side.
struct Consumers {
  std::size_t steps = 0;
  double step_seconds = 0;    ///< of all steps, from asking for a batch to asking for the next
  double device_seconds = 0;  ///< of these, in dispatches and copies
  double host_seconds[std::size(kHostPhaseNames)] = {};
  double total_host_seconds[std::size(kHostPhaseNames)] = {};   ///< with what came before the first step
  std::uint64_t dispatches = 0, barriers = 0, submissions = 0;  ///< of all steps
  std::uint64_t arena_at_peak = 0;                              ///< live bytes; the sum of peak_bytes
  std::uint64_t resident_bytes = 0;                             ///< device and staging memory that stays
  std::string peak_node;
  std::vector<Consumer> nodes;  ///< by falling time
  std::vector<Consumer> ops;    ///< the same, by op
};
Consumers consumers_of(const RunProfile& profile);

/// A trace that chrome://tracing and ui.perfetto.dev open. Tracks: steps, dispatches and copies of the device with
/// FLOP/s and bytes per second; the memory in use; what the host does. The table of consumers stands under
/// "otherData". Replaces the file atomically.
Status write_trace(os::FileSystem& files, const std::string& path, const RunProfile& profile,
                   const Consumers& consumers);

}  // namespace graft
