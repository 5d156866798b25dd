// What a driver tells of a pipeline: VK_KHR_pipeline_executable_properties.
#include "platform/vulkan/objects.h"

namespace graft::vulkan {
namespace {

double value_of(const VkPipelineExecutableStatisticKHR& it) {
  switch (it.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return it.value.b32 == VK_FALSE ? 0 : 1;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return static_cast<double>(it.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return static_cast<double>(it.value.u64);
    default: return it.value.f64;
  }
}

/// An array of structures that are filled in, of type `type` each.
template <typename Item>
std::vector<Item> blank(std::size_t count, VkStructureType type) {
  std::vector<Item> items(count);
  for (Item& item : items) item.sType = type;
  return items;
}

}  // namespace

Result<gpu::KernelReport> VulkanKernel::report() const {
  Context& context = owner_.context;
  if (!context.capture || context.fn.GetPipelineExecutablePropertiesKHR == nullptr ||
      context.fn.GetPipelineExecutableStatisticsKHR == nullptr ||
      context.fn.GetPipelineExecutableInternalRepresentationsKHR == nullptr) {
    return unsupported("The driver of \"", context.caps().device_name,
                       "\" tells nothing of kernels: it lacks VK_KHR_pipeline_executable_properties.");
  }
  const auto failed = [&](VkResult result, const char* call) {
    return context.failed(result, call, cat("Asking the driver about kernel \"", name_, "\""));
  };
  VkPipelineInfoKHR pipeline{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  pipeline.pipeline = pipeline_;
  std::uint32_t count = 0;
  VkResult result = GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutablePropertiesKHR, &pipeline, &count, nullptr);
  if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutablePropertiesKHR");
  auto executables =
      blank<VkPipelineExecutablePropertiesKHR>(count, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR);
  result = GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutablePropertiesKHR, &pipeline, &count, executables.data());
  if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutablePropertiesKHR");

  gpu::KernelReport report;
  for (std::uint32_t e = 0; e < count; ++e) {
    report.subgroup_size = executables[e].subgroupSize;
    VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
    info.pipeline = pipeline_;
    info.executableIndex = e;
    std::uint32_t items = 0;
    result = GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutableStatisticsKHR, &info, &items, nullptr);
    if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutableStatisticsKHR");
    auto statistics =
        blank<VkPipelineExecutableStatisticKHR>(items, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR);
    result = GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutableStatisticsKHR, &info, &items, statistics.data());
    if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutableStatisticsKHR");
    for (const auto& it : statistics) report.statistics.push_back({it.name, value_of(it)});

    items = 0;
    result = GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutableInternalRepresentationsKHR, &info, &items, nullptr);
    if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutableInternalRepresentationsKHR");
    auto texts = blank<VkPipelineExecutableInternalRepresentationKHR>(
        items, VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR);
    // Once for the sizes, once for the texts.
    std::vector<std::string> memory(items);
    for (int round = 0; round < 2; ++round) {
      result =
          GRAFT_VK_DEVICE_CALL(context, GetPipelineExecutableInternalRepresentationsKHR, &info, &items, texts.data());
      if (result != VK_SUCCESS) return failed(result, "vkGetPipelineExecutableInternalRepresentationsKHR");
      for (std::uint32_t i = 0; round == 0 && i < items; ++i) {
        memory[i].resize(texts[i].dataSize);
        texts[i].pData = memory[i].data();
      }
    }
    for (std::uint32_t i = 0; i < items; ++i) {
      if (texts[i].isText == VK_FALSE) continue;
      report.texts.push_back({texts[i].name, memory[i].c_str()});
    }
  }
  return report;
}

}  // namespace graft::vulkan
