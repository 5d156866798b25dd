// Devices that are lost, for tests of what goes on without them.
#pragma once

#include <memory>
#include <vector>

#include "tests/support/gpu_device.h"

namespace graft::test {

inline constexpr int kDeviceLost = -4;  // VK_ERROR_DEVICE_LOST

/// Devices of which one after the other is lost, at a call that a test chooses.
struct Devices {
  vulkan::CallFaults faults;
  std::vector<std::unique_ptr<gpu::Device>> all;
  Status refused;  ///< given in place of another device

  Devices() { faults.result = kDeviceLost; }
  Result<gpu::Device*> open() {
    GRAFT_TRY(refused);
    vulkan::DeviceOptions options = test_device_options();
    options.instance.validation = nullptr;
    options.instance.faults = &faults;
    GRAFT_TRY_ASSIGN(auto device, vulkan::create_device(options));
    all.push_back(std::move(device));
    return all.back().get();
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& device : all) sum += device->memory().reserved_bytes;
    return sum;
  }
};

}  // namespace graft::test
