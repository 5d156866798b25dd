// graft/vulkan.h: contexts on a device of the test's own.
#include "graft/vulkan.h"

#include <cstdlib>
#include <cstring>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/own_vulkan.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_vulkan_test {
namespace {

struct QueueLock {
  int held = 0, taken = 0;
};
void lock(void* user) {
  auto& it = *static_cast<QueueLock*>(user);
  EXPECT_EQ(it.held++, 0);
  ++it.taken;
}
void unlock(void* user) { EXPECT_EQ(--static_cast<QueueLock*>(user)->held, 0); }

class CApiVulkan : public testing::Test {
 protected:
  void SetUp() override {
    if (own_.physical == VK_NULL_HANDLE) GTEST_SKIP() << "There is no Vulkan loader, or no device.";
    write_model(tiny_mlp(kInputs, 6, kClasses), path_);
  }
  /// The state after some steps on a context, which is destroyed.
  std::string trained(graft_status made, CHandles& h) {
    EXPECT_EQ(made, GRAFT_OK) << h.message();
    if (made != GRAFT_OK) return "";
    EXPECT_EQ(graft_model_load(h.context, path_.c_str(), &h.model), GRAFT_OK) << h.message();
    auto options = training_options();
    options.batch = kSamples;
    options.learning_rate = 0.1;
    EXPECT_EQ(graft_trainer_create(h.model, &options, &h.trainer), GRAFT_OK) << h.message();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(batch_.step(h.trainer), GRAFT_OK) << h.message();
    return state_text(*h.trainer->trainer);
  }

  std::string device_;
  TemporaryFolder folder_;
  std::string path_ = folder_.file("mlp.graft");
  CBatch batch_{kSamples, kInputs, kClasses};
  OwnVulkan own_;
};

TEST_F(CApiVulkan, ADeviceWithAllThatGraftWantsGivesTheBitsOfItsOwn) {
  const auto options = context_options(device_);
  std::string expected;
  {
    CHandles h;
    expected = trained(graft_context_create(&options, &h.context), h);
  }
  const graft_vulkan_wanted_device* wanted = nullptr;
  auto given = own_.described();
  ASSERT_EQ(graft_vulkan_wanted(&given, &wanted), GRAFT_OK);
  own_.make_device(wanted->queue_family, {wanted->extensions, wanted->extensions + wanted->extension_count},
                   wanted->features);
  given = own_.described();
  given.queue_family = wanted->queue_family;
  given.extensions = wanted->extensions;
  given.extension_count = wanted->extension_count;
  given.features = wanted->features;
  QueueLock queue;
  given.lock_queue = lock;
  given.unlock_queue = unlock;
  given.queue_user = &queue;
  for (int round = 0; round < 2; ++round) {  // the device outlives a context
    CHandles h;
    EXPECT_EQ(trained(graft_context_create_vulkan(&options, &given, &h.context), h), expected);
    EXPECT_GT(queue.taken, 0);
  }
  graft_vulkan_wanted_destroy(wanted);
}

TEST_F(CApiVulkan, ADeviceWithNothingSwitchedOnTrainsToo) {
  own_.make_device(0, {}, nullptr);
  const auto given = own_.described();
  const auto options = context_options(device_);
  CHandles h;
  ASSERT_EQ(graft_context_create_vulkan(&options, &given, &h.context), GRAFT_OK) << h.message();
  const gpu::Caps& caps = h.context->device->caps();
  EXPECT_FALSE(caps.storage_16bit || caps.storage_8bit || caps.shader_float16 || caps.shader_int64 ||
               caps.integer_dot || caps.timeline_semaphore || caps.cooperative_matrix);
  const std::string first = trained(GRAFT_OK, h);
  CHandles again;
  EXPECT_EQ(trained(graft_context_create_vulkan(&options, &given, &again.context), again), first);
  EXPECT_EQ(c_api::reopen_device(*again.context).status().code(), Code::unsupported) << "it is the caller's";
}

// As a renderer on Vulkan 1.2 has them: by the structure of the version, without extensions.
TEST_F(CApiVulkan, FeaturesOfAVersionCountAsThoseOfExtensions) {
  VkPhysicalDeviceVulkan12Features of12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features of11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &of12};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &of11};
  own_.get<PFN_vkGetPhysicalDeviceFeatures2>("vkGetPhysicalDeviceFeatures2")(own_.physical, &features);
  if (of12.timelineSemaphore == VK_FALSE) GTEST_SKIP() << "The device has no timeline semaphores.";
  own_.make_device(0, {}, &features);
  auto given = own_.described();
  given.features = &features;
  const auto options = context_options(device_);
  CHandles h;
  ASSERT_EQ(graft_context_create_vulkan(&options, &given, &h.context), GRAFT_OK) << h.message();
  const gpu::Caps& caps = h.context->device->caps();
  EXPECT_TRUE(caps.timeline_semaphore);
  EXPECT_EQ(caps.storage_16bit, of11.storageBuffer16BitAccess == VK_TRUE);
  EXPECT_EQ(caps.storage_8bit, of12.storageBuffer8BitAccess == VK_TRUE);
  EXPECT_EQ(caps.shader_int64, features.features.shaderInt64 == VK_TRUE);
  EXPECT_FALSE(trained(GRAFT_OK, h).empty());
}

TEST_F(CApiVulkan, WhatCannotBeIsASentence) {
  own_.make_device(0, {}, nullptr);
  const auto options = context_options(device_);
  const auto refused = [&](auto change, graft_status code, std::string_view says) {
    auto given = own_.described();
    change(given);
    CHandles h;
    EXPECT_EQ(graft_context_create_vulkan(&options, &given, &h.context), code);
    EXPECT_TRUE(contains(h.message(), says)) << h.message();
  };
  refused([](auto& d) { d.instance = VK_NULL_HANDLE; }, GRAFT_INVALID_ARGUMENT, "VkInstance");
  refused([](auto& d) { d.physical_device = VK_NULL_HANDLE; }, GRAFT_INVALID_ARGUMENT, "VkPhysicalDevice");
  refused([](auto& d) { d.device = VK_NULL_HANDLE; }, GRAFT_INVALID_ARGUMENT, "VkDevice");
  refused([](auto& d) { d.queue = VK_NULL_HANDLE; }, GRAFT_INVALID_ARGUMENT, "VkQueue");
  refused([](auto& d) { d.queue_family = 99; }, GRAFT_INVALID_ARGUMENT, "queue family 99");
  refused([](auto& d) { d.api_version = VK_API_VERSION_1_0; }, GRAFT_UNSUPPORTED, "Vulkan 1.0");
  refused([](auto& d) { d.lock_queue = lock; }, GRAFT_INVALID_ARGUMENT, "unlock_queue");
  refused([](auto& d) { d.extension_count = 1; }, GRAFT_INVALID_ARGUMENT, "extensions is NULL");
  refused([](auto& d) { d.struct_size = 3; }, GRAFT_INVALID_ARGUMENT, "struct_size");
  CHandles h;
  EXPECT_EQ(graft_context_create_vulkan(&options, nullptr, &h.context), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_context_create_vulkan(&options, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  const graft_vulkan_wanted_device* wanted = nullptr;
  EXPECT_EQ(graft_vulkan_wanted(nullptr, &wanted), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_vulkan_wanted(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  graft_vulkan_wanted_destroy(nullptr);
}

TEST(CApiDevices, OneThatOnlyCompilesIsRefused) {
  const char* const library = std::getenv("GRAFT_TEST_SHORT_DRIVER");
  std::string device;
  auto options = context_options(device);
  if (library == nullptr || device != "lavapipe") GTEST_SKIP() << "A driver over lavapipe stands in for such a device.";
  options.vulkan_library = library;
  {
    CHandles h;
    ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  }
  setenv("GRAFT_TEST_NO_HARDWARE", "1", 1);
  CHandles h;
  EXPECT_EQ(graft_context_create(&options, &h.context), GRAFT_UNSUPPORTED);
  unsetenv("GRAFT_TEST_NO_HARDWARE");
  EXPECT_TRUE(contains(h.message(), "only compiles kernels")) << h.message();
  EXPECT_STREQ(graft_device_name(h.context), "") << "nothing can be asked of it";
}

}  // namespace
}  // namespace graft::test::c_api_vulkan_test
