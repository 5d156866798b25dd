// A fixture of tests that have a device of their own.
#pragma once

#include "tests/support/gpu_device.h"

namespace graft::test {

/// Tests on a device of their own; what the validation layers said of it, leaks included, fails them.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    GRAFT_TEST_GPU(device);
    device_ = std::move(device);
  }
  void TearDown() override {
    device_.reset();
    expect_no_validation_messages();
  }

  std::unique_ptr<gpu::Device> device_;
};

}  // namespace graft::test
