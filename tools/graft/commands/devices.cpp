// graft devices: what Vulkan finds here.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "graft/devices.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct DevicesArguments {
  DeviceFlags flags;
  bool self_test = false;
  bool json = false;
};

Status told(graft_status status, const graft_devices* devices) {
  if (status == GRAFT_OK) return {};
  return error(static_cast<Code>(status), graft_devices_message(devices));
}

/// All that is known of a device without opening it.
struct Device {
  graft_device_info info = sized<graft_device_info>();
  std::vector<graft_device_heap> heaps = {};
  std::vector<graft_device_fact> limits = {};
  std::vector<graft_device_fact> features = {};
  std::vector<std::string> matrices = {};  ///< "matrices of f16 16x16x16", then "multiples of matrices of ..."
  std::vector<graft_device_quirk> quirks = {};

  std::uint64_t limit(std::string_view name) const {
    for (const graft_device_fact& fact : limits) {
      if (fact.name == name) return fact.values[0];
    }
    return 0;
  }
  bool has(std::string_view name) const {
    for (const graft_device_fact& fact : features) {
      if (fact.name == name) return fact.values[0] != 0;
    }
    return false;
  }
};

Result<Device> read_device(graft_devices* devices, std::size_t index) {
  Device device;
  TRY(told(graft_devices_info(devices, index, &device.info), devices));
  auto heap = sized<graft_device_heap>();
  for (std::size_t i = 0; graft_devices_heap(devices, index, i, &heap) == GRAFT_OK; ++i) device.heaps.push_back(heap);
  auto fact = sized<graft_device_fact>();
  for (std::size_t i = 0; graft_devices_fact(devices, index, i, &fact) == GRAFT_OK; ++i) {
    if (fact.text != nullptr) {
      device.matrices.emplace_back(fact.text);
    } else {
      (fact.is_feature != 0 ? device.features : device.limits).push_back(fact);
    }
  }
  auto quirk = sized<graft_device_quirk>();
  for (std::size_t i = 0; graft_devices_quirk(devices, index, i, &quirk) == GRAFT_OK; ++i)
    device.quirks.push_back(quirk);
  return device;
}

std::string version_text(const std::uint32_t (&version)[3]) {
  return cat(version[0], ".", version[1], ".", version[2]);
}

const char* type_text(graft_device_type type) {
  constexpr std::array<const char*, 5> kTypes = {"other", "integrated", "discrete", "virtual", "cpu"};
  return kTypes[static_cast<std::size_t>(type)];
}

nlohmann::ordered_json to_json(const Device& device, std::size_t index) {
  const graft_device_info& info = device.info;
  nlohmann::ordered_json quirks = nlohmann::ordered_json::array();
  for (const auto& q : device.quirks) {
    quirks.push_back({{"name", q.name}, {"action", q.action}, {"reason", q.reason}, {"link", q.link}});
  }
  nlohmann::ordered_json heaps = nlohmann::ordered_json::array();
  for (const auto& heap : device.heaps) {
    heaps.push_back({{"bytes", heap.bytes}, {"device_local", heap.device_local != 0}});
  }
  nlohmann::ordered_json limits = nlohmann::ordered_json::object();
  for (const auto& fact : device.limits) {
    limits[fact.name] = fact.value_count == 1
                            ? nlohmann::ordered_json(fact.values[0])
                            : nlohmann::ordered_json({fact.values[0], fact.values[1], fact.values[2]});
  }
  nlohmann::ordered_json features = nlohmann::ordered_json::object();
  for (const auto& fact : device.features) features[fact.name] = fact.values[0] != 0;
  constexpr std::string_view kMultiples = "multiples of ";
  nlohmann::ordered_json fixed = nlohmann::ordered_json::array(), flexible = nlohmann::ordered_json::array();
  for (const std::string& text : device.matrices) {
    if (text.starts_with(kMultiples)) {
      flexible.push_back(text.substr(kMultiples.size()));
    } else {
      fixed.push_back(text);
    }
  }
  features["matrix_shapes"] = fixed;
  if (info.matrix_subgroup != 0) features["matrix_subgroup"] = info.matrix_subgroup;
  features["flexible_shapes"] = flexible;
  if (info.max_flexible_side != 0) features["max_flexible_side"] = info.max_flexible_side;
  features["timestamps"] = info.timestamps != 0;
  return {{"index", index},
          {"driver", info.driver},
          {"driver_info", info.driver_info},
          {"vendor_id", info.vendor_id},
          {"device_id", info.device_id},
          {"api_version", version_text(info.api_version)},
          {"name", info.name},
          {"type", type_text(info.type)},
          {"heaps", heaps},
          {"limits", limits},
          {"features", features},
          {"quirks", quirks}};
}

void print(const Device& device, std::size_t index) {
  const graft_device_info& info = device.info;
  to_stdout("[%zu] %s (%s)\n", index, info.name, type_text(info.type));
  to_stdout("    driver    %s %s, Vulkan %s\n", info.driver, info.driver_info, version_text(info.api_version).c_str());
  to_stdout("    memory    %s on the device%s, %s in one binding\n", bytes_text(info.memory).c_str(),
            info.unified_memory != 0 ? " (shared with the host)" : "",
            bytes_text(device.limit("max_storage_buffer_range")).c_str());
  to_stdout("    compute   %llu invocations and %s shared memory per workgroup, subgroups of %llu\n",
            static_cast<unsigned long long>(device.limit("max_workgroup_invocations")),
            bytes_text(device.limit("max_shared_memory")).c_str(),
            static_cast<unsigned long long>(device.limit("subgroup_size")));
  std::string features;
  const auto add = [&](bool present, const std::string& name) {
    if (present) features += (features.empty() ? "" : ", ") + name;
  };
  add(device.has("shader_float16"), "float16 arithmetic");
  add(device.has("storage_16bit"), "16-bit storage");
  add(device.has("storage_8bit"), "8-bit storage");
  add(device.has("subgroup_arithmetic"), "subgroup arithmetic");
  add(device.has("integer_dot"), "integer dot products");
  for (const std::string& matrices : device.matrices) add(true, matrices);
  add(device.has("timeline_semaphore"), "timeline semaphores");
  add(info.timestamps != 0, "timestamps");
  to_stdout("    features  %s\n", features.empty() ? "none beyond Vulkan 1.1" : features.c_str());
  for (const auto& q : device.quirks) {
    to_stdout("    quirk     %s (%s): %s %s\n", q.action, q.name, q.reason, q.link);
  }
}

/// What is known of kernels on a device.
struct Verdicts {
  std::string file;
  std::vector<std::string> passed;
  std::map<std::string, std::string> failed;
  std::vector<std::string> untested;
  std::map<std::string, std::string> tuned;

  static void kernel(void* user, const char* name, graft_kernel_verdict verdict, const char* why) {
    Verdicts& self = *static_cast<Verdicts*>(user);
    if (verdict == GRAFT_KERNEL_PASSED) self.passed.emplace_back(name);
    if (verdict == GRAFT_KERNEL_FAILED) self.failed.emplace(name, why);
    if (verdict == GRAFT_KERNEL_UNTESTED) self.untested.emplace_back(name);
  }
  static void choice(void* user, const char* name, const char* variant) {
    static_cast<Verdicts*>(user)->tuned.emplace(name, variant);
  }
};

nlohmann::ordered_json to_json(const Verdicts& verdicts) {
  return {{"file", verdicts.file},
          {"passed", verdicts.passed},
          {"failed", verdicts.failed},
          {"untested", verdicts.untested},
          {"tuned", verdicts.tuned}};
}

void print(const Verdicts& verdicts, bool tested) {
  if (verdicts.passed.empty() && verdicts.failed.empty() && verdicts.tuned.empty()) return;
  to_stdout("    kernels   %zu passed the self-test%s, %zu failed; %zu choices are tuned\n", verdicts.passed.size(),
            tested ? "" : " before", verdicts.failed.size(), verdicts.tuned.size());
  for (const auto& [key, why] : verdicts.failed) to_stdout("              %s: %s\n", key.c_str(), why.c_str());
  if (!tested) return;
  for (const std::string& name : verdicts.untested)
    to_stdout("              %s: no probe uses it here\n", name.c_str());
}

// What is remembered of device `index`; with --self-test, what a test of all kernels says now.
Result<Verdicts> verdicts_of(const DevicesArguments& options, graft_devices* devices, std::size_t index) {
  Verdicts verdicts;
  DeviceFlags own = options.flags;
  own.device = cat(index);
  if (options.self_test) {
    TRY_ASSIGN(auto context, open_context(own));
    TRY(checked(graft_context_self_test(context.get(), Verdicts::kernel, &verdicts), context.get()));
    TRY(close_context(std::move(context)));
    return verdicts;
  }
  const char* file = "";
  const std::string folder = cache_folder(own);
  TRY(told(
      graft_devices_remembered(devices, index, folder.c_str(), Verdicts::kernel, Verdicts::choice, &verdicts, &file),
      devices));
  verdicts.file = file;
  return verdicts;
}

Status run_devices(const DevicesArguments& options) {
  TRY_ASSIGN(const auto devices, find_devices(options.flags));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::size_t failures = 0;
  for (std::size_t i = 0; i < graft_devices_count(devices.get()); ++i) {
    TRY_ASSIGN(const Device device, read_device(devices.get(), i));
    if (!options.json) print(device, i);
    TRY_ASSIGN(const Verdicts verdicts, verdicts_of(options, devices.get(), i));
    if (options.self_test) failures += verdicts.failed.size();
    if (options.json) {
      all.push_back(to_json(device, i));
      all.back()["self_test"] = to_json(verdicts);
    } else {
      print(verdicts, options.self_test);
    }
  }
  if (options.json) to_stdout("%s\n", all.dump(2).c_str());
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
