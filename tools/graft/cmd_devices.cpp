// graft devices: what Vulkan finds here.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/graft/device.h"

namespace graft::cli {
namespace {

struct Options {
  DeviceFlags flags;
  bool json = false;
};

const char* type_name(gpu::DeviceType type) {
  switch (type) {
    case gpu::DeviceType::other: return "other";
    case gpu::DeviceType::integrated: return "integrated";
    case gpu::DeviceType::discrete: return "discrete";
    case gpu::DeviceType::virtual_gpu: return "virtual";
    case gpu::DeviceType::cpu: return "cpu";
  }
  return "unknown";
}

std::string version_text(std::uint32_t packed) {
  return cat(packed >> 22 & 0x7f, ".", packed >> 12 & 0x3ff, ".", packed & 0xfff);
}

std::uint64_t device_memory(const gpu::Caps& caps) {
  std::uint64_t bytes = 0;
  for (const auto& heap : caps.heaps) bytes += heap.device_local ? heap.bytes : 0;
  return bytes;
}

nlohmann::ordered_json to_json(const gpu::Caps& caps, std::size_t index) {
  nlohmann::ordered_json heaps = nlohmann::ordered_json::array();
  for (const auto& heap : caps.heaps) heaps.push_back({{"bytes", heap.bytes}, {"device_local", heap.device_local}});
  return {{"index", index},
          {"name", caps.device_name},
          {"type", type_name(caps.type)},
          {"driver", caps.driver_name},
          {"driver_info", caps.driver_info},
          {"vendor_id", caps.vendor_id},
          {"device_id", caps.device_id},
          {"api_version", version_text(caps.api_version)},
          {"heaps", heaps},
          {"limits",
           {{"max_storage_buffer_range", caps.max_storage_buffer_range},
            {"max_allocation", caps.max_allocation},
            {"storage_buffer_alignment", caps.storage_buffer_alignment},
            {"max_storage_buffers_per_stage", caps.max_storage_buffers_per_stage},
            {"max_push_constants", caps.max_push_constants},
            {"max_workgroup_invocations", caps.max_workgroup_invocations},
            {"max_workgroup_size", caps.max_workgroup_size},
            {"max_workgroup_count", caps.max_workgroup_count},
            {"max_shared_memory", caps.max_shared_memory},
            {"subgroup_size", caps.subgroup_size}}},
          {"features",
           {{"subgroup_basic", caps.subgroup_basic},
            {"subgroup_arithmetic", caps.subgroup_arithmetic},
            {"subgroup_shuffle", caps.subgroup_shuffle},
            {"shader_float16", caps.shader_float16},
            {"shader_int8", caps.shader_int8},
            {"shader_int64", caps.shader_int64},
            {"storage_16bit", caps.storage_16bit},
            {"storage_8bit", caps.storage_8bit},
            {"cooperative_matrix", caps.cooperative_matrix},
            {"timeline_semaphore", caps.timeline_semaphore},
            {"unified_memory", caps.unified_memory},
            {"timestamps", caps.timestamp_period_ns > 0}}}};
}

void print(const gpu::Caps& caps, std::size_t index) {
  std::printf("[%zu] %s (%s)\n", index, caps.device_name.c_str(), type_name(caps.type));
  std::printf("    driver    %s %s, Vulkan %s\n", caps.driver_name.c_str(), caps.driver_info.c_str(),
              version_text(caps.api_version).c_str());
  std::printf("    memory    %s on the device%s, %s in one binding\n", bytes_text(device_memory(caps)).c_str(),
              caps.unified_memory ? " (shared with the host)" : "", bytes_text(caps.max_storage_buffer_range).c_str());
  std::printf("    compute   %u invocations and %s shared memory per workgroup, subgroups of %u\n",
              caps.max_workgroup_invocations, bytes_text(caps.max_shared_memory).c_str(), caps.subgroup_size);
  std::string features;
  const auto add = [&](bool present, const char* name) {
    if (present) features += (features.empty() ? "" : ", ") + std::string(name);
  };
  add(caps.shader_float16, "float16 arithmetic");
  add(caps.storage_16bit, "16-bit storage");
  add(caps.storage_8bit, "8-bit storage");
  add(caps.subgroup_arithmetic, "subgroup arithmetic");
  add(caps.cooperative_matrix, "cooperative matrix");
  add(caps.timeline_semaphore, "timeline semaphores");
  add(caps.timestamp_period_ns > 0, "timestamps");
  std::printf("    features  %s\n", features.empty() ? "none beyond Vulkan 1.1" : features.c_str());
}

Status run(const Options& options) {
  GRAFT_TRY_ASSIGN(const auto devices, vulkan::enumerate(instance_options(options.flags)));
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < devices.size(); ++i) all.push_back(to_json(devices[i], i));
    std::printf("%s\n", all.dump(2).c_str());
  } else {
    for (std::size_t i = 0; i < devices.size(); ++i) print(devices[i], i);
  }
  return ok_status();
}

}  // namespace

Action add_devices(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--vulkan-library", options->flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_flag("--verbose", options->flags.verbose, "Show graft's log on stderr");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace graft::cli
