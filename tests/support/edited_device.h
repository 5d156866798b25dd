// A device with other capabilities than it has, and one that runs out of memory on demand.
#pragma once

#include <utility>

#include "platform/gpu/gpu.h"

namespace graft::test {

/// Passes everything on to another device, which must outlive it.
class EditedDevice : public gpu::Device {
 public:
  explicit EditedDevice(gpu::Device& inner) : inner_(inner), caps_(inner.caps()) {}

  gpu::Caps& edit() { return caps_; }
  /// So many bytes there are: a buffer that would exceed them is refused.
  void limit_bytes(std::uint64_t bytes) { limit_ = bytes; }

  const gpu::Caps& caps() const override { return caps_; }
  void set_advice(gpu::Advice advice) override { caps_.advice = std::move(advice); }
  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override {
    if (inner_.memory().bytes + bytes > limit_) {
      return error(Code::out_of_memory, "The test's device has no ", bytes, " bytes left for \"", name, "\".");
    }
    return inner_.create_buffer(bytes, kind, name);
  }
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override {
    return inner_.create_kernels(kernels);
  }
  Result<std::unique_ptr<gpu::Recorder>> record(std::string_view name, std::uint32_t timestamps) override {
    return inner_.record(name, timestamps);
  }
  Result<gpu::Ticket> submit(std::span<gpu::CommandList* const> lists) override { return inner_.submit(lists); }
  Status wait(gpu::Ticket ticket, std::chrono::nanoseconds timeout) override { return inner_.wait(ticket, timeout); }
  Status read_timestamps(gpu::CommandList& list, std::span<std::uint64_t> ticks) override {
    return inner_.read_timestamps(list, ticks);
  }
  gpu::MemoryStats memory() const override { return inner_.memory(); }
  Status open_pipeline_cache(const std::string& path) override { return inner_.open_pipeline_cache(path); }
  Status save_pipeline_cache() override { return inner_.save_pipeline_cache(); }

 private:
  gpu::Device& inner_;
  gpu::Caps caps_;
  std::uint64_t limit_ = ~std::uint64_t{0};
};

}  // namespace graft::test
