// A device with other capabilities than it has, and one that runs out of memory on demand.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "platform/gpu/with_target.h"

namespace graft::test {

/// Passes everything on to another device, which must outlive it.
/// Calls that may allocate can be made to fail: a buffer, kernels, a recording, a submission, a wait.
class EditedDevice : public gpu::WithTarget {
 public:
  using WithTarget::WithTarget;

  /// So many bytes there are: a buffer that would exceed them is refused.
  void limit_bytes(std::uint64_t bytes) { limit_ = bytes; }

  /// What available_memory() says.
  void set_available(std::uint64_t bytes) { available_ = bytes; }
  /// From now on the driver allows so many bytes, those included that memory() says are held.
  void allow_bytes(std::uint64_t bytes) { allowed_ = bytes; }
  /// Lets `count` calls from the n-th from now on (1 is the next) run out of memory.
  void refuse_call(std::uint64_t n, std::uint64_t count = 1) {
    refuse_at_ = calls_ + n;
    refuse_count_ = count;
  }
  /// Calls until counting(true) are neither counted nor refused: of a test that looks at what there is.
  void counting(bool on) { counting_ = on; }
  std::uint64_t calls() const { return calls_; }  ///< that could have been refused
  std::uint64_t refused() const { return refused_; }

  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override {
    GRAFT_TRY(count_call("a buffer"));
    if (memory().bytes + bytes > limit_) {
      return error(Code::out_of_memory, "The test's device has no ", bytes, " bytes left for \"", name, "\".");
    }
    return WithTarget::create_buffer(bytes, kind, name);
  }
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override {
    GRAFT_TRY(count_call("kernels"));
    return WithTarget::create_kernels(kernels);
  }
  Result<std::unique_ptr<gpu::Recorder>> record(std::string_view name, std::uint32_t timestamps) override {
    GRAFT_TRY(count_call("a recording"));
    return WithTarget::record(name, timestamps);
  }
  Result<gpu::Ticket> submit(std::span<gpu::CommandList* const> lists) override {
    GRAFT_TRY(count_call("a submission"));
    return WithTarget::submit(lists);
  }
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) override {
    GRAFT_TRY(count_call("a wait"));
    return WithTarget::wait(ticket, timeout);
  }
  std::uint64_t available_memory() const override {
    if (!allowed_) return available_.value_or(WithTarget::available_memory());
    const std::uint64_t held = memory().bytes;
    return *allowed_ > held ? *allowed_ - held : 0;
  }

 private:
  Status count_call(const char* what) {
    if (!counting_) return ok_status();
    ++calls_;
    if (calls_ < refuse_at_ || calls_ - refuse_at_ >= refuse_count_) return ok_status();
    ++refused_;
    return error(Code::out_of_memory, "The test's device has no memory for ", what, ".");
  }

  std::uint64_t limit_ = ~std::uint64_t{0};
  std::optional<std::uint64_t> allowed_;
  std::optional<std::uint64_t> available_;
  bool counting_ = true;
  std::uint64_t calls_ = 0;
  std::uint64_t refuse_at_ = 0;
  std::uint64_t refuse_count_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace graft::test
