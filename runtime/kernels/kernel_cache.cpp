#include "runtime/kernels/kernel_cache.h"

#include <algorithm>
#include <list>

#include "platform/gpu/quirks.h"
#include "runtime/core/features.h"
#include "runtime/kernels/low_precision_kernel.h"
#include "runtime/kernels/share_kernel.h"
#include "runtime/kernels/shuffle_kernel.h"
#include "runtime/kernels/specialize.h"
#include "runtime/kernels/texel_kernel.h"
#include "runtime/kernels/wide_kernel.h"

namespace graft {

Result<std::vector<gpu::Kernel*>> KernelCache::get(std::span<const PlanKernel> kernels, bool in_parts,
                                                   const Compiled& compiled) {
  std::vector<gpu::KernelDesc> missing;
  std::vector<const PlanKernel*> missing_kernels;
  std::map<std::pair<shaders::KernelId, BindingStorage>, std::vector<std::uint32_t>> low_precision;
  std::map<std::tuple<shaders::KernelId, BindingStorage, std::vector<Share>>, std::vector<std::uint32_t>> shared;
  std::list<TexelKernel> texel_kernels;
  std::list<std::vector<std::uint32_t>> changed;  // none moves while descriptions point at it
  for (const PlanKernel& kernel : kernels) {      // no two are equal
    if (kernels_.contains(key_of(kernel, in_parts))) continue;
    const shaders::KernelInfo& info = shaders::kernel_info(kernel.id);
    std::span<const std::uint32_t> spirv = info.spirv();
    if (kHasHalves && kernel.storage != 0) {
      auto& words = low_precision[{kernel.id, kernel.storage}];
      if (words.empty()) {
        GRAFT_TRY_ASSIGN(words,
                         low_precision_kernel(info, kernel.storage, is_native(info, kernel.storage, device_.target())));
      }
      spirv = words;
    }
    if (!kernel.shares.empty()) {
      auto& words = shared[{kernel.id, kernel.storage, kernel.shares}];
      if (words.empty()) {
        auto changed_words = share_kernel(spirv, kernel.shares, kernel.push_bytes);
        if (!changed_words.ok()) {
          return std::move(changed_words)
              .status()
              .with_context(cat("While making kernel ", info.name, " share buffers"));
        }
        words = *std::move(changed_words);
      }
      spirv = words;
    }
    std::span<const std::uint32_t> specialization = kernel.specialization;
    bool plain = false;
    if (!specialization.empty() && wants_plain_constants(device_.caps(), info.name, specialization)) {
      spirv = changed.emplace_back(specialize(spirv, specialization));
      specialization = {};
      plain = true;
    }
    std::span<const gpu::TexelView> texels;
    if (kHasSoftware && gpu::reads_texels(device_.caps()) && gains_by_texels(info.name) && info.features == 0) {
      const TexelKernel& read = texel_kernels.emplace_back(read_texels(spirv, kernel.bindings));
      spirv = read.words;
      texels = read.views;
    }
    if (kHasSoftware && wants_wide_vectors(device_.caps()) && info.features == 0) {
      spirv = changed.emplace_back(widen_vectors(spirv));
    }
    if (plain) spirv = changed.emplace_back(cheaper_shuffles(spirv));  // last: it lists all variables
    missing.push_back({info.name, spirv, specialization, kernel.bindings, kernel.push_bytes, texels});
    missing.back().in_parts = in_parts;
    if ((info.features & shaders::needs_coopmat) != 0) missing.back().subgroup_size = device_.caps().matrix_subgroup;
    missing_kernels.push_back(&kernel);
  }
  constexpr std::size_t kAtOnce = 4;  // a phone's compiler takes a tenth of a second and more for each
  for (std::size_t done = 0; done < missing.size();) {
    const std::size_t count = std::min(kAtOnce, missing.size() - done);
    GRAFT_TRY_ASSIGN(auto made, device_.create_kernels(std::span(missing).subspan(done, count)));
    for (auto& kernel : made) kernels_[key_of(*missing_kernels[done++], in_parts)] = std::move(kernel);
    if (compiled) GRAFT_TRY(compiled(done, missing.size()));
  }
  std::vector<gpu::Kernel*> result;
  result.reserve(kernels.size());
  for (const PlanKernel& kernel : kernels) result.push_back(kernels_.find(key_of(kernel, in_parts))->second.get());
  return result;
}

}  // namespace graft
