// A device that records and runs nothing: for planning without a GPU and for tests of failure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platform/gpu/gpu.h"

namespace graft::null {

enum class CommandKind { dispatch, copy, fill, barrier, host_barrier, timestamp, begin_label, end_label };

/// One recorded command. Which members count depends on the kind.
struct Command {
  CommandKind kind = CommandKind::barrier;
  std::string name;                       ///< dispatch: the kernel's; begin_label: the label
  std::vector<gpu::BufferRange> ranges;   ///< dispatch: bindings; copy: from, to; fill: to
  std::vector<std::byte> push;            ///< dispatch
  std::array<std::uint32_t, 3> groups{};  ///< dispatch
  std::uint32_t word = 0;                 ///< fill: the word; timestamp: the index
  std::array<std::uint32_t, 3> first{};   ///< dispatch: the first workgroup
};

struct Options {
  gpu::Caps caps;                  ///< as they are here, so that a plan for any device can be made
  std::uint64_t memory_limit = 0;  ///< bytes of all buffers together; 0: none
  bool keep_submitted = true;      ///< false: submitted() stays empty, and submit() allocates nothing
};

/// Buffers are zero-filled host memory, mapped() for upload and readback (for device memory where Caps say unified).
/// Arguments are checked as on a real device.
class NullDevice final : public gpu::Device {
 public:
  explicit NullDevice(Options options);
  ~NullDevice() override;

  const gpu::Target& target() const override { return target_; }
  void set_advice(gpu::Advice advice) override { target_.advice = std::move(advice); }
  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override;
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override;
  Result<std::unique_ptr<gpu::Recorder>> record(std::string_view name, std::uint32_t timestamps) override;
  Result<gpu::Ticket> submit(std::span<gpu::CommandList* const> lists) override;
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) override;
  /// Ticks are 0, 1, 2, ...
  Status read_timestamps(gpu::CommandList& list, std::span<std::uint64_t> ticks) override;
  gpu::MemoryStats memory() const override { return stats_; }
  Status open_pipeline_cache(const std::string& path) override;
  Status save_pipeline_cache() override;

  /// Lets the n-th fallible call from now on (1 is the next) fail with `code`; 0 cancels. Every call of Device and of
  /// Recorder except the getters counts; a failing Recorder call shows at finish().
  void fail_call(std::uint64_t n, Code code = Code::device_error);
  /// Fallible calls so far.
  std::uint64_t calls() const { return calls_; }

  /// What a list made by this device recorded.
  static const std::vector<Command>& commands(const gpu::CommandList& list);
  /// Everything submitted so far, in order.
  const std::vector<Command>& submitted() const { return submitted_commands_; }
  void clear_submitted() { submitted_commands_.clear(); }
  /// Objects (buffers, kernels, recorders, lists) alive: 0 before the device goes, or something leaks.
  std::uint64_t live_objects() const { return live_objects_; }

 private:
  friend class NullRecorder;
  friend struct NullObject;
  friend class NullBuffer;
  Status count_call(const char* call);

  Options options_;
  gpu::Target target_;
  gpu::MemoryStats stats_;
  std::uint64_t calls_ = 0;
  std::uint64_t fail_at_ = 0;
  Code fail_code_ = Code::device_error;
  std::uint64_t live_objects_ = 0;
  gpu::Ticket submitted_ = 0;
  std::vector<Command> submitted_commands_;
};

}  // namespace graft::null
