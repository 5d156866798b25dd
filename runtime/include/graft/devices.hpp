// Vulkan devices and what graft's kernels give there. Included by itself.
#pragma once

#include <functional>

#include "graft/devices_calls.hpp"
#include "graft/graft.hpp"

namespace graft {
inline namespace v0 {

/// The devices that can run graft, in the loader's order.
class Devices : private detail::FunctionsOfContext, public detail::DevicesCalls {
 public:
  /// Gets each choice that was measured.
  using Tuned = std::function<void(const char* choice, const char* variant)>;

  using DevicesCalls::DevicesCalls;
  /// See graft_devices_find: of the options the Vulkan library and the log count.
  static Result<Devices> find(const ContextOptions& options = {}) {
    auto functions = std::make_unique<detail::ContextFunctions>(options);
    graft_devices* made = nullptr;
    const graft_status code = graft_devices_find(&functions->raw, &made);
    Devices devices(made, nullptr);
    devices.functions_ = std::move(functions);
    detail::Thrown::rethrow(code, nullptr);
    if (code != GRAFT_OK) return Status(code, graft_devices_message(made));
    return devices;
  }
  /// What a folder remembers of a device, and the file that says it; "" for none. See graft_devices_remembered.
  Result<std::string> remembered(std::size_t index, const std::string& folder, const KernelReport& report,
                                 const Tuned& tuned) {
    const std::pair<const KernelReport&, const Tuned&> both(report, tuned);
    const auto kernel = [](void* user, const char* name, graft_kernel_verdict verdict, const char* why) {
      const KernelReport& to = static_cast<decltype(&both)>(user)->first;
      if (to) (void)detail::Thrown::caught(nullptr, 0, [&] { return to(name, verdict, why), 0; });
    };
    const auto choice = [](void* user, const char* name, const char* variant) {
      const Tuned& to = static_cast<decltype(&both)>(user)->second;
      if (to) (void)detail::Thrown::caught(nullptr, 0, [&] { return to(name, variant), 0; });
    };
    const char* file = nullptr;
    auto* const user = const_cast<void*>(static_cast<const void*>(&both));
    const graft_status code = graft_devices_remembered(get(), index, folder.c_str(), kernel, choice, user, &file);
    detail::Thrown::rethrow(code, nullptr);
    if (code != GRAFT_OK) return Status(code, graft_devices_message(get()));
    return detail::text(file);
  }
};

/// Devices that graft knows without having them, for PlanOptions::caps: those without figures first.
inline std::vector<KnownDevice> known_devices() {
  std::vector<KnownDevice> all;
  auto one = detail::sized<graft_known_device>();
  while (graft_known_device_at(all.size(), &one) == GRAFT_OK) all.emplace_back(one);
  return all;
}

}  // namespace v0
}  // namespace graft
