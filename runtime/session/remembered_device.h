// A device together with what its cache folder knows of it.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/self_test.h"

namespace graft {

/// The proof that programs are given. Threads: the device's.
class RememberedDevice final : public KernelProof {
 public:
  /// Reads what `folder` holds for the device and lets the device follow it: its advice, its pipeline cache. Nothing in
  /// the folder is an error. An empty folder: nothing is read or written, and the tests hold for this object's life.
  static Result<std::unique_ptr<RememberedDevice>> open(os::FileSystem& files, const std::string& folder,
                                                        gpu::Device& device, const LogSink& log, bool self_test);

  Result<bool> check(gpu::Device& device, std::span<const Plan* const> plans) override {
    return self_test_ ? test_.check(device, plans) : Result<bool>(false);
  }
  DeviceProfile& profile() { return *profile_; }
  SelfTest& test() { return test_; }

 private:
  RememberedDevice(std::unique_ptr<DeviceProfile> profile, const LogSink& log, bool self_test)
      : profile_(std::move(profile)), test_(*profile_, log), self_test_(self_test) {}

  std::unique_ptr<DeviceProfile> profile_;
  SelfTest test_;
  bool self_test_;
};

}  // namespace graft
