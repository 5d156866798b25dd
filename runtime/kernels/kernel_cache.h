// Compiled kernels, shared by the programs of a session.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/plan/plan.h"

namespace graft {

/// Lifetime: kernels live as long as the cache, which must not outlive its device. One thread at a time.
class KernelCache {
 public:
  explicit KernelCache(gpu::Device& device) : device_(device) {}

  /// Told, after a few kernels were compiled, of how many of how many; an error ends it.
  using Compiled = std::function<Status(std::size_t done, std::size_t total)>;
  /// One kernel for each (Plan::kernels). Those that are not there yet are compiled. in_parts: such as
  /// KernelDesc::in_parts says.
  Result<std::vector<gpu::Kernel*>> get(std::span<const PlanKernel> kernels, bool in_parts, const Compiled& compiled);
  std::size_t size() const { return kernels_.size(); }

 private:
  using Key = std::tuple<shaders::KernelId, std::vector<std::uint32_t>, std::uint32_t, std::uint32_t, BindingStorage,
                         std::vector<Share>, bool>;
  static Key key_of(const PlanKernel& kernel, bool in_parts) {
    return {kernel.id,      kernel.specialization, kernel.bindings, kernel.push_bytes,
            kernel.storage, kernel.shares,         in_parts};
  }

  gpu::Device& device_;
  std::map<Key, std::unique_ptr<gpu::Kernel>> kernels_;
};

}  // namespace graft
