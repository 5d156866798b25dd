// The Vulkan device that tests run on.
//
// GRAFT_TEST_DEVICE=lavapipe (default) | swiftshader | <part of a device name> chooses it;
// GRAFT_TEST_VALIDATION=0 leaves the validation layers out; GRAFT_TEST_MEMORY=discrete hides its memory from the host,
// as a card does.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "platform/gpu/gpu.h"
#include "platform/vulkan/vulkan_device.h"

namespace graft::test {

/// Options for the chosen device with validation on, where the layers are installed.
vulkan::DeviceOptions test_device_options();
/// As test_device_options(), for the device named `name` ("lavapipe", "swiftshader", ...) rather than the chosen one.
vulkan::DeviceOptions device_options_for(const std::string& name);

/// A new device. not_found where it is not installed: tests skip then (GRAFT_TEST_GPU does both).
Result<std::unique_ptr<gpu::Device>> test_device();

/// What the validation layers have said in this process so far.
vulkan::ValidationMessages& validation_messages();

/// Fails the test when the validation layers said anything, and forgets it. Call it after the device is destroyed
/// to catch leaks as well.
void expect_no_validation_messages();

/// Waits this long for a submission before a test fails: lavapipe compiles pipelines at their first dispatch.
constexpr std::chrono::seconds kTestTimeout{120};

}  // namespace graft::test

/// Defines `std::unique_ptr<gpu::Device> name`, or skips the test where the device is not installed.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument names a variable
#define GRAFT_TEST_GPU(name)                                                 \
  std::unique_ptr<graft::gpu::Device> name;                                  \
  if (auto name##_result = graft::test::test_device(); name##_result.ok()) { \
    name = std::move(name##_result).value();                                 \
  } else if (name##_result.status().code() == graft::Code::not_found) {      \
    GTEST_SKIP() << name##_result.status().message();                        \
  } else {                                                                   \
    FAIL() << name##_result.status().message();                              \
  }
// NOLINTEND(bugprone-macro-parentheses)
