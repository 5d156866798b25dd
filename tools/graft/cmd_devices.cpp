// graft devices: what Vulkan finds here.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/graft/device.h"
#include "tools/graft/self_test.h"

namespace graft::cli {
namespace {

struct Options {
  DeviceFlags flags;
  bool self_test = false;
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

/// "matrices of f16 16x16x16".
std::string matrix_text(const gpu::MatrixShape& shape) {
  const char* operand = shape.operand == gpu::MatrixShape::Operand::f16 ? "f16" : "bf16";
  return cat("matrices of ", operand, " ", shape.m, "x", shape.n, "x", shape.k);
}

nlohmann::ordered_json to_json(const gpu::Caps& caps, std::size_t index) {
  nlohmann::ordered_json heaps = nlohmann::ordered_json::array();
  for (const auto& heap : caps.heaps) heaps.push_back({{"bytes", heap.bytes}, {"device_local", heap.device_local}});
  nlohmann::ordered_json matrices = nlohmann::ordered_json::array();
  for (const gpu::MatrixShape& shape : caps.matrix_shapes) matrices.push_back(matrix_text(shape));
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
            {"integer_dot", caps.integer_dot},
            {"cooperative_matrix", caps.cooperative_matrix},
            {"matrix_shapes", matrices},
            {"shader_bfloat16", caps.shader_bfloat16},
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
  add(caps.integer_dot, "integer dot products");
  for (const gpu::MatrixShape& shape : caps.matrix_shapes) add(true, matrix_text(shape).c_str());
  add(caps.timeline_semaphore, "timeline semaphores");
  add(caps.timestamp_period_ns > 0, "timestamps");
  std::printf("    features  %s\n", features.empty() ? "none beyond Vulkan 1.1" : features.c_str());
}

const char* verdict_name(KernelVerdict verdict) {
  switch (verdict) {
    case KernelVerdict::passed: return "passed";
    case KernelVerdict::failed: return "failed";
    case KernelVerdict::not_chosen: return "not chosen";
  }
  return "unknown";
}

nlohmann::ordered_json to_json(const SelfTest& test) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::object();
  for (const auto& [name, verdict] : test.kernels) kernels[name] = verdict_name(verdict);
  return {{"kernels", kernels}, {"failures", test.failures}};
}

void print(const SelfTest& test) {
  std::size_t counts[3] = {};
  for (const auto& [name, verdict] : test.kernels) ++counts[static_cast<int>(verdict)];
  std::printf("    kernels   %zu pass the self-test, %zu fail, %zu are not chosen on this device\n", counts[0],
              counts[1], counts[2]);
  for (const KernelVerdict shown : {KernelVerdict::failed, KernelVerdict::not_chosen}) {
    for (const auto& [name, verdict] : test.kernels) {
      if (verdict == shown) std::printf("              %s: %s\n", name.c_str(), verdict_name(verdict));
    }
  }
  for (const auto& [probe, fault] : test.failures) std::printf("              %s: %s\n", probe.c_str(), fault.c_str());
}

Result<SelfTest> test_device(const DeviceFlags& flags, std::size_t index) {
  DeviceFlags own = flags;
  own.device = cat(index);
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(own));
  GRAFT_TRY_ASSIGN(SelfTest test, run_self_test(device->device()));
  GRAFT_TRY(device->close());
  return test;
}

Status run(const Options& options) {
  GRAFT_TRY_ASSIGN(const auto devices, vulkan::enumerate(instance_options(options.flags)));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (options.json) all.push_back(to_json(devices[i], i));
    if (!options.json) print(devices[i], i);
    if (!options.self_test) continue;
    GRAFT_TRY_ASSIGN(const SelfTest test, test_device(options.flags, i));
    failures += test.failures.size();
    if (options.json) all.back()["self_test"] = to_json(test);
    if (!options.json) print(test);
  }
  if (options.json) std::printf("%s\n", all.dump(2).c_str());
  if (failures == 0) return ok_status();
  return error(Code::device_error, failures, " probes of the self-test failed.");
}

}  // namespace

Action add_devices(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--vulkan-library", options->flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_flag("--verbose", options->flags.verbose, "Show graft's log on stderr");
  app.add_flag("--self-test", options->self_test, "Run every kernel against a known answer (some seconds)");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace graft::cli
