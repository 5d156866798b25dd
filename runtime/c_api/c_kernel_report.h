// What a profile of a device says of kernels, told to an app.
#pragma once

#include "graft/devices.h"
#include "runtime/self_test/device_profile.h"

namespace graft::c_api {

inline void tell(const DeviceProfile& profile, graft_kernel_report report, void* user) {
  for (const ProofKey& key : profile.passed()) report(user, key.c_str(), GRAFT_KERNEL_PASSED, "");
  for (const auto& [key, why] : profile.failed()) report(user, key.c_str(), GRAFT_KERNEL_FAILED, why.c_str());
  for (const std::string& name : profile.unknown()) report(user, name.c_str(), GRAFT_KERNEL_UNTESTED, "");
}

}  // namespace graft::c_api
