#include <algorithm>

#include "platform/os/threads.h"
#include "platform/vulkan/objects.h"

namespace graft::vulkan {
namespace {

/// Shader modules, needed only while pipelines are created. Variants by specialization share one.
class Modules {
 public:
  explicit Modules(Context& context) : context_(context) {}
  ~Modules() {
    for (const auto& [words, module] : modules_) context_.fn.DestroyShaderModule(context_.device, module, nullptr);
  }
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  Result<VkShaderModule> get(const gpu::KernelDesc& desc) {
    if (const auto found = modules_.find(desc.spirv.data()); found != modules_.end()) return found->second;
    VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    info.codeSize = desc.spirv.size_bytes();
    info.pCode = desc.spirv.data();
    VkShaderModule module = VK_NULL_HANDLE;
    const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreateShaderModule, &info, nullptr, &module);
    if (result != VK_SUCCESS) {
      return context_.failed(result, "vkCreateShaderModule", cat("Loading kernel \"", desc.name, "\""));
    }
    modules_.emplace(desc.spirv.data(), module);
    return module;
  }

 private:
  Context& context_;
  std::map<const std::uint32_t*, VkShaderModule> modules_;
};

/// All pipelines at once: in one call, or in one of each thread where the driver compiles in it.
VkResult create_pipelines(Context& context, VkPipelineCache cache, std::span<const VkComputePipelineCreateInfo> infos,
                          std::span<VkPipeline> pipelines) {
  constexpr std::size_t kPerThread = 4;  // fewer are not worth a thread
  const std::size_t threads = std::min<std::size_t>(context.compile_threads, infos.size() / kPerThread);
  if (threads < 2 || context.faults != nullptr) {
    return GRAFT_VK_DEVICE_CALL(context, CreateComputePipelines, cache, static_cast<std::uint32_t>(infos.size()),
                                infos.data(), nullptr, pipelines.data());
  }
  std::vector<VkResult> results(threads, VK_SUCCESS);
  const auto work = [&](std::size_t t) {
    const std::size_t first = infos.size() * t / threads, end = infos.size() * (t + 1) / threads;
    results[t] = context.fn.CreateComputePipelines(context.device, cache, static_cast<std::uint32_t>(end - first),
                                                   &infos[first], nullptr, &pipelines[first]);
  };
  os::run_in_threads(threads, work);
  const auto bad = std::find_if(results.begin(), results.end(), [](VkResult r) { return r != VK_SUCCESS; });
  return bad == results.end() ? VK_SUCCESS : *bad;
}

}  // namespace

IdlePipelines::~IdlePipelines() {
  for (const auto& [key, pipeline] : pipelines_) context_.fn.DestroyPipeline(context_.device, pipeline, nullptr);
}

VkPipeline IdlePipelines::take(const Key& key) {
  const auto found = std::ranges::find(pipelines_, key, [](const auto& one) -> const Key& { return one.first; });
  if (found == pipelines_.end()) return VK_NULL_HANDLE;
  const VkPipeline pipeline = found->second;
  pipelines_.erase(found);
  return pipeline;
}

void IdlePipelines::give(Key key, VkPipeline pipeline) noexcept {
  pipelines_.emplace_back(std::move(key), pipeline);
  if (pipelines_.size() <= kMost) return;
  context_.fn.DestroyPipeline(context_.device, pipelines_.front().second, nullptr);
  pipelines_.erase(pipelines_.begin());
}

LayoutCache::~LayoutCache() {
  for (const auto& [key, layout] : pipelines_) context_.fn.DestroyPipelineLayout(context_.device, layout, nullptr);
  for (const auto& [key, layout] : sets_) context_.fn.DestroyDescriptorSetLayout(context_.device, layout, nullptr);
}

Result<VkDescriptorSetLayout> LayoutCache::set_layout(Bindings bindings) {
  if (const auto found = sets_.find(bindings); found != sets_.end()) return found->second;
  std::vector<VkDescriptorSetLayoutBinding> slots(std::size_t{bindings.buffers} + bindings.texels);
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    slots[i].binding = i;
    slots[i].descriptorType =
        i < bindings.buffers ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
    slots[i].descriptorCount = 1;
    slots[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  info.bindingCount = static_cast<std::uint32_t>(slots.size());
  info.pBindings = slots.data();
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreateDescriptorSetLayout, &info, nullptr, &layout);
  if (result != VK_SUCCESS) {
    return context_.failed(result, "vkCreateDescriptorSetLayout",
                           cat("Creating a layout of ", slots.size(), " bindings"));
  }
  sets_.emplace(bindings, layout);
  return layout;
}

Result<LayoutCache::Layout> LayoutCache::get(Bindings bindings, std::uint32_t push_bytes) {
  Layout layout;
  if (bindings.buffers > 0) {
    GRAFT_TRY_ASSIGN(layout.set, set_layout(bindings));
  }
  const std::pair key{bindings, push_bytes};
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) {
    layout.pipeline = found->second;
    return layout;
  }
  VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.setLayoutCount = bindings.buffers > 0 ? 1 : 0;
  info.pSetLayouts = &layout.set;
  info.pushConstantRangeCount = push_bytes > 0 ? 1 : 0;
  info.pPushConstantRanges = &push;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreatePipelineLayout, &info, nullptr, &layout.pipeline);
  if (result != VK_SUCCESS) {
    return context_.failed(result, "vkCreatePipelineLayout",
                           cat("Creating a layout of ", bindings.buffers, " bindings and ", push_bytes, " push bytes"));
  }
  pipelines_.emplace(key, layout.pipeline);
  return layout;
}

Result<std::vector<std::unique_ptr<gpu::Kernel>>> VulkanKernel::create(Owner& owner, LayoutCache& layouts,
                                                                       VkPipelineCache cache,
                                                                       std::span<const gpu::KernelDesc> descs) {
  Context& context = owner.context;
  const std::size_t count = descs.size();
  if (count == 0) return std::vector<std::unique_ptr<gpu::Kernel>>{};
  Modules modules(context);
  std::vector<std::unique_ptr<VulkanKernel>> kernels;
  std::vector<VkComputePipelineCreateInfo> infos;
  std::vector<VulkanKernel*> compiled;  ///< those of `infos`
  std::vector<VkSpecializationInfo> specializations(count);
  std::vector<std::vector<VkSpecializationMapEntry>> entries(count);
  std::vector<VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT> sizes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const gpu::KernelDesc& desc = descs[i];
    GRAFT_TRY(gpu::check_kernel(desc, context.caps()));
    GRAFT_TRY_ASSIGN(const auto layout,
                     layouts.get({desc.bindings, static_cast<std::uint32_t>(desc.texels.size())}, desc.push_bytes));
    kernels.push_back(std::make_unique<VulkanKernel>(owner, desc, layout));
    if (owner.idle != nullptr) {
      const std::vector<std::uint32_t> specialization(desc.specialization.begin(), desc.specialization.end());
      kernels[i]->key_ = {hash128(std::as_bytes(desc.spirv)), specialization, layout.pipeline, desc.subgroup_size,
                          desc.in_parts};
      kernels[i]->pipeline_ = owner.idle->take(*kernels[i]->key_);
      if (kernels[i]->pipeline_ != VK_NULL_HANDLE) continue;
    }
    GRAFT_TRY_ASSIGN(VkShaderModule module, modules.get(desc));
    compiled.push_back(kernels[i].get());
    for (std::uint32_t id = 0; id < desc.specialization.size(); ++id) entries[i].push_back({id, id * 4, 4});
    specializations[i] = {static_cast<std::uint32_t>(entries[i].size()), entries[i].data(),
                          desc.specialization.size_bytes(), desc.specialization.data()};
    VkComputePipelineCreateInfo& info = infos.emplace_back();
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.flags = desc.in_parts ? VK_PIPELINE_CREATE_DISPATCH_BASE_BIT : 0;
    if (context.capture) {
      info.flags |=
          VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    }
    info.layout = layout.pipeline;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    if (desc.subgroup_size != 0 && context.physical.full_subgroups) {
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT_EXT;
    }
    if (desc.subgroup_size != 0 && context.physical.sets_subgroup_size) {
      sizes[i].sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT;
      sizes[i].requiredSubgroupSize = desc.subgroup_size;
      info.stage.pNext = &sizes[i];
    }
    info.stage.pSpecializationInfo = entries[i].empty() ? nullptr : &specializations[i];
  }
  if (!infos.empty()) {
    std::vector<VkPipeline> pipelines(infos.size(), VK_NULL_HANDLE);
    const VkResult result = create_pipelines(context, cache, infos, pipelines);
    for (std::size_t i = 0; i < compiled.size(); ++i) compiled[i]->pipeline_ = pipelines[i];  // owned, also on failure
    if (result != VK_SUCCESS) {
      const auto bad = std::ranges::find(pipelines, VkPipeline{VK_NULL_HANDLE});
      const std::string_view name =
          compiled[bad == pipelines.end() ? 0 : static_cast<std::size_t>(bad - pipelines.begin())]->name_;
      return context.failed(result, "vkCreateComputePipelines",
                            cat("Compiling kernel \"", name, "\" (of ", infos.size(), ")"));
    }
  }
  std::vector<std::unique_ptr<gpu::Kernel>> out;
  for (auto& kernel : kernels) {
    context.set_name(VK_OBJECT_TYPE_PIPELINE, kernel->pipeline_, kernel->name_);
    out.push_back(std::move(kernel));
  }
  return out;
}

VulkanKernel::~VulkanKernel() {
  if (!owner_.submissions.quiesce()) return;
  if (pipeline_ == VK_NULL_HANDLE) return;
  if (key_) {
    owner_.idle->give(std::move(*key_), pipeline_);
  } else {
    owner_.context.fn.DestroyPipeline(owner_.context.device, pipeline_, nullptr);
  }
}

}  // namespace graft::vulkan
