// A plan recorded once and run many times.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/exec/memory.h"
#include "runtime/exec/run_control.h"
#include "runtime/exec/run_observer.h"
#include "runtime/exec/slices.h"
#include "runtime/plan/plan.h"

namespace graft {

class KernelProof;

struct ProgramOptions {
  /// One submission is meant to take no longer than this on the device. A single dispatch is not cut for it.
  std::chrono::nanoseconds submit_target = std::chrono::milliseconds(100);
  /// Longest wait for one submission.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// Takes device timestamps around every dispatch: for times(). Slower.
  bool profile = false;
  /// Asked, by whoever makes plans for programs, whether the kernels are right before their first use.
  KernelProof* proof = nullptr;
  /// Told of what the host does and of every complete run.
  RunObserver* observer = nullptr;
  /// How much of the device runs take, and whether they go on. A slice below submit_target takes its place; submissions
  /// that were longer in two runs are then cut anew, dispatches by their workgroups. Null: as if nobody asked.
  RunControl* control = nullptr;
  /// Cancelled runs end before their next submission; but one that has begun to write residents goes on to its end.
  bool cancellable = true;
  /// Cancelled creation ends between kernels. Not for what is built again: whoever cancels often would never see it.
  bool cancellable_build = false;
};

/// Where each command list ends, as positions in Plan::steps. A submission holds one list or more, as many as
/// ProgramOptions::submit_target allows by the times that they took before, so that a run has at most as many
/// submissions as lists.
std::vector<std::uint32_t> list_ends(const Plan& plan, const gpu::Quirks& quirks);

/// An input of one run: bytes of the graph's input `name`, as many as PlanPort::bytes.
struct Feed {
  std::string_view name;
  std::span<const std::byte> bytes;
};

struct NodeTime {
  std::uint32_t node = kNoIndex;  ///< index into Plan::nodes; kNoIndex: copies of inputs and outputs
  double seconds = 0;
};

/// Threads: all members on the device's thread, but request_pause(), which any thread may call.
/// After the first run, a run allocates no host and no device memory, unless a slice asks to cut what took too long.
class Program {
 public:
  /// Compiles what is not compiled yet and records everything. `memory` must cover the plan and outlive the program.
  static Result<std::unique_ptr<Program>> create(Memory& memory, Plan plan, const ProgramOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Plan& plan() const { return plan_; }

  /// Staging of input i of the plan: whoever fills it right before run() need not feed that input. Empty if unused.
  /// Another program's run, and Memory::write(), use the same staging.
  std::span<std::byte> input(std::size_t i);

  /// From now on input or output `name` is read from, or written to, `range` instead of staging: PlanPort::bytes of an
  /// imported buffer, which must outlive the program or the next call for this name; nullopt: staging again. Waits for
  /// what runs and records anew. not_found, invalid_argument for a size or place that does not suit.
  Status bind(std::string_view name, std::optional<gpu::BufferRange> range);
  bool is_bound(std::string_view name) const { return bound_.contains(name); }

  /// One run, start to end. Feeds may come in any order; an input that is not fed takes what its staging holds.
  /// invalid_argument (unknown name, wrong size), timeout, device_lost, device_error;
  /// cancelled after request_pause(): resume() goes on, a new run() starts over (mutations of the part that was done
  /// stay done).
  Status run(std::span<const Feed> feeds, const StepState& state);
  /// Continues a run that was cancelled or failed; its inputs must still be in their staging.
  Status resume();
  /// Whether the last run was submitted at least in part, and then failed or was cancelled on the way. resume() then
  /// does every part of it exactly once, even where a wait failed and its outcome is unknown.
  bool unfinished() const { return !complete_ && next_list_ != 0; }
  /// Whether what was submitted of the last run writes residents. Where not, a failed run may be begun anew instead.
  bool wrote_residents() const;
  /// Waits for what was submitted.
  Status settle() { return drain(); }
  /// The run in progress, or the next one, returns once what was submitted is done: within about two submissions.
  void request_pause() { pause_.store(true, std::memory_order_relaxed); }

  /// Output bytes of the last complete run, until another program of this memory runs. Empty when there is no such
  /// output.
  std::span<const std::byte> output(std::size_t i) const;
  std::span<const std::byte> output(std::string_view name) const;

  /// Device time of every node in the last run, in the order in which they began (a merged dispatch counts for its
  /// first node); needs ProgramOptions::profile.
  Result<std::vector<NodeTime>> times();
  /// The same of every step of the plan, in order. Steps without a barrier between them may overlap on the device; the
  /// later one then gets only the time after the earlier one's end.
  Result<std::vector<StepTime>> step_times();

  /// Submissions that the last run was cut into, and the longest of them as measured by the host.
  std::uint32_t submissions() const { return submissions_; }
  std::chrono::nanoseconds longest_submission() const { return longest_; }
  /// Host time of the last run for putting streamed values into the ring, whether or not the device was busy meanwhile.
  std::chrono::nanoseconds refill_time() const { return refill_time_; }

 private:
  struct List {
    std::unique_ptr<gpu::CommandList> commands;
    std::uint32_t first_step = 0;
    std::uint32_t end_step = 0;
    std::optional<Workgroups> part = {};  ///< of the only step's dispatch
    double estimate_ns = 0;
    std::uint32_t long_runs = 0;     ///< in how many runs on end it took longer than a slice
    bool divisible = true;           ///< false: nothing smaller can be submitted
    bool ends_run = false;           ///< the host reads outputs after it
    std::uint32_t first_refill = 0;  ///< of Plan::refills: those that it needs
    std::uint32_t end_refill = 0;
  };
  /// Of a refill: the host's numbers, where they go, and how they are stored there.
  struct Source {
    std::span<const std::byte> bytes;
    std::byte* target = nullptr;
    DType dtype{};
    DType stored{};
  };
  struct InFlight {
    gpu::Ticket ticket = 0;
    std::uint32_t first_list = 0;
    std::uint32_t end_list = 0;
    std::chrono::steady_clock::time_point submitted;
  };

  Program(Memory& memory, Plan plan, const ProgramOptions& options)
      : memory_(memory), plan_(std::move(plan)), options_(options) {}

  Status record();
  Result<List> record_list(std::uint32_t first, std::uint32_t end);
  Result<List> record_part(const List& of, gpu::Kernel& kernel, const Workgroups& part, bool ends_run);
  void record_step(gpu::Recorder& recorder, const Step& step);
  std::vector<gpu::BufferRange> ranges_of(const Step& step);
  gpu::BufferRange range_of(const PlanBinding& binding);
  std::set<gpu::Buffer*> bound_buffers() const;
  void note_commands();
  std::chrono::nanoseconds slice() const;
  Status keep_to_slice();
  Result<std::vector<List>> divide(const List& list, std::uint32_t parts);
  Status find_sources();
  Status refill(const List& list);
  Status stage(std::span<const Feed> feeds, const StepState& state);
  Status go();
  bool is_cancelled() const;
  Status submit_next();
  Status wait_oldest();
  Status drain();
  std::string describe(const InFlight& work) const;

  Memory& memory_;
  Plan plan_;
  ProgramOptions options_;
  std::vector<gpu::Kernel*> kernels_;  ///< of plan_.kernels
  std::vector<List> lists_;
  std::map<std::string, gpu::BufferRange, std::less<>> bound_;  ///< by port: see bind()
  std::vector<Source> refills_;
  std::vector<gpu::CommandList*> commands_;  ///< of lists_, side by side for submit()
  std::atomic<bool> pause_ = false;
  std::uint32_t next_list_ = 0;
  InFlight in_flight_[2];
  std::uint32_t flying_ = 0;
  bool complete_ = false;
  std::uint32_t submissions_ = 0;
  std::chrono::nanoseconds longest_{0};
  std::chrono::nanoseconds refill_time_{0};
  std::chrono::steady_clock::time_point last_done_;
};

}  // namespace graft
