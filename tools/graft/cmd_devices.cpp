// graft devices: what Vulkan finds here.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench/caps_json.h"
#include "tools/bench/device.h"
#include "tools/common/status.h"

namespace graft::cli {
namespace {

struct DevicesArguments {
  DeviceFlags flags;
  bool self_test = false;
  bool json = false;
};

std::string version_text(std::uint32_t packed) {
  return cat(packed >> 22 & 0x7f, ".", packed >> 12 & 0x3ff, ".", packed & 0xfff);
}

std::uint64_t device_memory(const gpu::Caps& caps) {
  std::uint64_t bytes = 0;
  for (const auto& heap : caps.heaps) bytes += heap.device_local ? heap.bytes : 0;
  return bytes;
}

nlohmann::ordered_json to_json(const gpu::Target& target, std::size_t index) {
  nlohmann::ordered_json quirks = nlohmann::ordered_json::array();
  for (const auto& q : target.quirks.applied) {
    quirks.push_back({{"name", q.name}, {"action", q.action}, {"reason", q.reason}, {"link", q.link}});
  }
  nlohmann::ordered_json out = {{"index", index},
                                {"driver", target.caps.driver_name},
                                {"driver_info", target.caps.driver_info},
                                {"vendor_id", target.caps.vendor_id},
                                {"device_id", target.caps.device_id},
                                {"api_version", version_text(target.caps.api_version)}};
  out.update(caps_json(target.caps));
  out["quirks"] = std::move(quirks);
  return out;
}

void print(const gpu::Target& target, std::size_t index) {
  std::printf("[%zu] %s (%s)\n", index, target.caps.device_name.c_str(), type_name(target.caps.type));
  std::printf("    driver    %s %s, Vulkan %s\n", target.caps.driver_name.c_str(), target.caps.driver_info.c_str(),
              version_text(target.caps.api_version).c_str());
  std::printf("    memory    %s on the device%s, %s in one binding\n", bytes_text(device_memory(target.caps)).c_str(),
              target.caps.unified_memory ? " (shared with the host)" : "",
              bytes_text(target.caps.max_storage_buffer_range).c_str());
  std::printf("    compute   %u invocations and %s shared memory per workgroup, subgroups of %u\n",
              target.caps.max_workgroup_invocations, bytes_text(target.caps.max_shared_memory).c_str(),
              target.caps.subgroup_size);
  std::string features;
  const auto add = [&](bool present, const char* name) {
    if (present) features += (features.empty() ? "" : ", ") + std::string(name);
  };
  add(target.caps.shader_float16, "float16 arithmetic");
  add(target.caps.storage_16bit, "16-bit storage");
  add(target.caps.storage_8bit, "8-bit storage");
  add(target.caps.subgroup_arithmetic, "subgroup arithmetic");
  add(target.caps.integer_dot, "integer dot products");
  for (const gpu::MatrixShape& shape : target.caps.matrix_shapes) add(true, matrix_text(shape).c_str());
  for (const gpu::MatrixShape& shape : target.caps.flexible_shapes)
    add(true, ("multiples of " + matrix_text(shape)).c_str());
  add(target.caps.timeline_semaphore, "timeline semaphores");
  add(target.caps.timestamp_period_ns > 0, "timestamps");
  std::printf("    features  %s\n", features.empty() ? "none beyond Vulkan 1.1" : features.c_str());
  for (const auto& q : target.quirks.applied) {
    std::printf("    quirk     %s (%s): %s %s\n", q.action.c_str(), q.name.c_str(), q.reason.c_str(), q.link.c_str());
  }
}

nlohmann::ordered_json to_json(const DeviceProfile& profile) {
  return {{"file", profile.path()},
          {"passed", profile.passed()},
          {"failed", profile.failed()},
          {"untested", profile.unknown()},
          {"tuned", profile.tuned()}};
}

void print(const DeviceProfile& profile, bool tested) {
  const auto unknown = profile.unknown();
  if (profile.passed().empty() && profile.failed().empty() && profile.tuned().empty()) return;
  std::printf("    kernels   %zu passed the self-test%s, %zu failed; %zu choices are tuned\n", profile.passed().size(),
              tested ? "" : " before", profile.failed().size(), profile.tuned().size());
  for (const auto& [key, why] : profile.failed()) std::printf("              %s: %s\n", key.c_str(), why.c_str());
  if (!tested) return;
  for (const std::string& name : unknown) std::printf("              %s: no probe uses it here\n", name.c_str());
}

// What is remembered of device `index`; with --self-test, what a test of all kernels says now.
Result<std::unique_ptr<DeviceProfile>> profile_of(const DevicesArguments& options, const gpu::Caps& caps,
                                                  std::size_t index) {
  DeviceFlags own = options.flags;
  own.device = cat(index);
  if (options.self_test) {
    TRY_ASSIGN(auto device, OpenDevice::open(own));
    // A profile of its own, without a folder: what the device remembers goes when it is closed.
    auto profile = DeviceProfile::open(os::system_files(), "", caps);
    SelfTest test(*profile, log_sink(own));
    TRY(test.check_all(device->device()));
    device->remembered()->profile().adopt_verdicts(*profile);
    device->remembered()->profile().save();
    TRY(device->close());
    return profile;
  }
  return DeviceProfile::open(os::system_files(), cache_folder(own), caps, log_sink(own));
}

Status run_devices(const DevicesArguments& options) {
  TRY_ASSIGN(const auto devices, vulkan::enumerate(instance_options(options.flags)));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (options.json) all.push_back(to_json(devices[i], i));
    if (!options.json) print(devices[i], i);
    TRY_ASSIGN(const auto profile, profile_of(options, devices[i].caps, i));
    if (options.self_test) failures += profile->failed().size();
    if (options.json) all.back()["self_test"] = to_json(*profile);
    if (!options.json) print(*profile, options.self_test);
  }
  if (options.json) std::printf("%s\n", all.dump(2).c_str());
  if (failures == 0) return ok_status();
  return error(Code::device_error, failures, " kernels failed the self-test.");
}

}  // namespace

Action add_devices(CLI::App& app) {
  auto options = std::make_shared<DevicesArguments>();
  app.add_option("--vulkan-library", options->flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_flag("--verbose", options->flags.verbose, "Show graft's log on stderr");
  app.add_flag("--self-test", options->self_test,
               "Run every kernel against a known answer (a minute on software Vulkan), and remember");
  app.add_option("--cache", options->flags.cache, "Folder of what is remembered of devices; \"none\" for none");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run_devices(*options); };
}

}  // namespace graft::cli
