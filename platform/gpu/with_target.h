// A device that passes for another one.
#pragma once

#include <utility>

#include "platform/gpu/gpu.h"

namespace graft::gpu {

/// Forwards everything to another device, which must outlive it, but has a target of its own.
class WithTarget : public Device {
 public:
  explicit WithTarget(Device& inner) : inner_(inner), target_(inner.target()) {}

  Target& edit() { return target_; }

  const Target& target() const override { return target_; }
  void set_advice(Advice advice) override { target_.advice = std::move(advice); }
  Result<std::unique_ptr<Buffer>> create_buffer(std::uint64_t bytes, MemoryKind kind, std::string_view name) override {
    return inner_.create_buffer(bytes, kind, name);
  }
  Result<std::vector<std::unique_ptr<Kernel>>> create_kernels(std::span<const KernelDesc> kernels) override {
    return inner_.create_kernels(kernels);
  }
  Result<KernelReport> report(const Kernel& kernel) override { return inner_.report(kernel); }
  Result<std::unique_ptr<Recorder>> record(std::string_view name, std::uint32_t timestamps) override {
    return inner_.record(name, timestamps);
  }
  Result<Ticket> submit(std::span<CommandList* const> lists) override { return inner_.submit(lists); }
  Status wait(Ticket ticket, std::chrono::nanoseconds timeout) override { return inner_.wait(ticket, timeout); }
  Status read_timestamps(CommandList& list, std::span<std::uint64_t> ticks) override {
    return inner_.read_timestamps(list, ticks);
  }
  MemoryStats memory() const override { return inner_.memory(); }
  std::uint64_t available_memory() const override { return inner_.available_memory(); }
  Status open_pipeline_cache(const std::string& path) override { return inner_.open_pipeline_cache(path); }
  Status save_pipeline_cache() override { return inner_.save_pipeline_cache(); }

 private:
  Device& inner_;
  Target target_;
};

}  // namespace graft::gpu
