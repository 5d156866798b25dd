// graft/external.h: inputs and outputs in memory of another Vulkan device, and in the app's own.
#include "graft/external.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/support/own_vulkan.h"

namespace graft::test::c_api_external_test {
namespace {

constexpr std::uint64_t kBytes = 65536;

/// Memory of another Vulkan device, mapped, and its file descriptor.
class Exported {
 public:
  explicit Exported(const OwnVulkan& vulkan) : vulkan_(vulkan) {
    VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
    external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.pNext = &external;
    info.size = kBytes;
    info.usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    const VkDevice device = vulkan.device;
    if (vulkan.get<PFN_vkCreateBuffer>("vkCreateBuffer")(device, &info, nullptr, &buffer_) != VK_SUCCESS) return;
    VkMemoryRequirements needs{};
    vulkan.get<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(device, buffer_, &needs);
    VkPhysicalDeviceMemoryProperties types{};
    vulkan.get<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(vulkan.physical, &types);
    constexpr VkMemoryPropertyFlags kWanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (type_ = 0; type_ < types.memoryTypeCount; ++type_) {
      if ((needs.memoryTypeBits >> type_ & 1) != 0 && (types.memoryTypes[type_].propertyFlags & kWanted) == kWanted) {
        break;
      }
    }
    VkExportMemoryAllocateInfo exported{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO};
    exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocate.pNext = &exported;
    allocate.allocationSize = bytes_ = needs.size;
    allocate.memoryTypeIndex = type_;
    if (vulkan.get<PFN_vkAllocateMemory>("vkAllocateMemory")(device, &allocate, nullptr, &memory_) != VK_SUCCESS) {
      return;
    }
    vulkan.get<PFN_vkBindBufferMemory>("vkBindBufferMemory")(device, buffer_, memory_, 0);
    void* address = nullptr;
    vulkan.get<PFN_vkMapMemory>("vkMapMemory")(device, memory_, 0, VK_WHOLE_SIZE, 0, &address);
    mapped = static_cast<std::byte*>(address);
    VkMemoryGetFdInfoKHR get{VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR};
    get.memory = memory_;
    get.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    const auto get_fd = reinterpret_cast<PFN_vkGetMemoryFdKHR>(
        vulkan.get<PFN_vkGetDeviceProcAddr>("vkGetDeviceProcAddr")(device, "vkGetMemoryFdKHR"));
    if (get_fd(device, &get, &fd) != VK_SUCCESS) fd = -1;
  }
  ~Exported() {
    if (fd >= 0) ::close(fd);
    vulkan_.get<PFN_vkDestroyBuffer>("vkDestroyBuffer")(vulkan_.device, buffer_, nullptr);
    vulkan_.get<PFN_vkFreeMemory>("vkFreeMemory")(vulkan_.device, memory_, nullptr);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  graft_external_memory described(std::uint64_t offset) const {
    auto memory = sized<graft_external_memory>();
    memory.kind = GRAFT_EXTERNAL_OPAQUE_FD;
    memory.fd = fd;
    memory.bytes = bytes_;
    memory.offset = offset;
    memory.own_memory_type = 1;
    memory.memory_type = type_;
    return memory;
  }

  int fd = -1;
  std::byte* mapped = nullptr;

 private:
  const OwnVulkan& vulkan_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::uint64_t bytes_ = 0;
  std::uint32_t type_ = 0;
};

class CApiExternal : public CApi {
 protected:
  void open_other() {
    ASSERT_NE(vulkan_.physical, VkPhysicalDevice{}) << "no Vulkan of the test's own";
    std::uint32_t count = 0;
    const auto list = vulkan_.get<PFN_vkEnumerateDeviceExtensionProperties>("vkEnumerateDeviceExtensionProperties");
    list(vulkan_.physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    list(vulkan_.physical, nullptr, &count, all.data());
    for (const auto& extension : all) {
      exports_ = exports_ || std::strcmp(extension.extensionName, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME) == 0;
    }
    if (!exports_) GTEST_SKIP() << "the device exports no memory";
    vulkan_.make_device(0, {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME}, nullptr);
  }
  std::vector<float> floats(const std::byte* from, std::size_t count) {
    std::vector<float> out(count);
    std::memcpy(out.data(), from, count * sizeof(float));
    return out;
  }

  bool exports_ = false;
  OwnVulkan vulkan_;
};

TEST_F(CApiExternal, MemoryOfAnotherDevice) {
  open_other();
  if (!exports_) return;
  const auto expected = run_model(h_.model);
  Exported memory(vulkan_);
  ASSERT_GE(memory.fd, 0);
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  constexpr std::uint64_t kInput = 256, kOutput = 4096;  // both in one allocation
  const auto input = memory.described(kInput), result = memory.described(kOutput);
  ASSERT_EQ(graft_session_bind(h_.session, "x", &input), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_bind(h_.session, "y", &result), GRAFT_OK) << h_.message();
  for (int i = 0; i < 3; ++i) {
    std::memcpy(memory.mapped + kInput, batch_.x.data(), batch_.bytes());
    std::memset(memory.mapped + kOutput, 0xff, 64);
    ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
    EXPECT_EQ(floats(memory.mapped + kOutput, expected.size()), expected);
  }
  const void* data = nullptr;
  graft_tensor_info info{};
  EXPECT_EQ(graft_session_output(h_.session, "y", &data, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_output(h_.session, "y", nullptr, nullptr, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_INVALID_ARGUMENT);
  // And back: what the host gives and gets.
  ASSERT_EQ(graft_session_bind(h_.session, "y", nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), expected);
  ASSERT_EQ(graft_session_bind(h_.session, "x", nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_INVALID_ARGUMENT) << "the input is to be given again";
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), expected);
  expect_no_validation_messages();
}

TEST_F(CApiExternal, APauseEndsIt) {
  open_other();
  if (!exports_) return;
  Exported memory(vulkan_);
  const auto expected = run_model(h_.model);
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  const auto result = memory.described(0);
  ASSERT_EQ(graft_session_bind(h_.session, "y", &result), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_pause(h_.session), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), expected) << "with the input that was given";
}

TEST_F(CApiExternal, MemoryOfTheApp) {
  const auto expected = run_model(h_.model);
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(kBytes, kBytes), std::free);
  auto* const bytes = static_cast<std::byte*>(page.get());
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  auto memory = sized<graft_external_memory>();
  memory.kind = GRAFT_EXTERNAL_HOST;
  memory.pointer = bytes;
  memory.bytes = kBytes;
  const graft_status bound = graft_session_bind(h_.session, "x", &memory);
  if (bound == GRAFT_UNSUPPORTED) GTEST_SKIP() << h_.message();
  ASSERT_EQ(bound, GRAFT_OK) << h_.message();
  std::memcpy(bytes, batch_.x.data(), batch_.bytes());
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), expected);
  memory.pointer = bytes + 4;
  EXPECT_EQ(graft_session_bind(h_.session, "x", &memory), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "multiples of")) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << "what was bound stays";
  EXPECT_EQ(output(h_.session), expected);
}

TEST_F(CApiExternal, WhatDoesNotSuitIsRefused) {
  open_other();
  if (!exports_) return;
  Exported memory(vulkan_);
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  const auto refused = [&](const char* name, const graft_external_memory& given, graft_status status,
                           const char* words) {
    EXPECT_EQ(graft_session_bind(h_.session, name, &given), status) << words;
    EXPECT_TRUE(contains(h_.message(), words)) << h_.message();
  };
  auto given = memory.described(0);
  refused("z", given, GRAFT_NOT_FOUND, "no input or output \"z\"");
  given.offset = 3;
  refused("x", given, GRAFT_INVALID_ARGUMENT, "from a multiple of");
  given.offset = kBytes - 16;
  refused("x", given, GRAFT_INVALID_ARGUMENT, "does not suit");
  given.offset = ~std::uint64_t{0} - 255;
  refused("x", given, GRAFT_INVALID_ARGUMENT, "does not suit");
  given = memory.described(0);
  given.fd = -1;
  refused("x", given, GRAFT_INVALID_ARGUMENT, "no valid file descriptor");
  given = memory.described(0);
  given.memory_type = 40;
  refused("x", given, GRAFT_UNSUPPORTED, "has a type");
  given = memory.described(0);
  given.kind = GRAFT_EXTERNAL_HARDWARE_BUFFER;  // of Android alone
  refused("x", given, GRAFT_UNSUPPORTED, "lacks VK_ANDROID_external_memory_android_hardware_buffer");
  given.kind = static_cast<graft_external_kind>(7);
  refused("x", given, GRAFT_INVALID_ARGUMENT, "no kind number 7");
  given = memory.described(0);
  given.struct_size = 1000;
  refused("x", given, GRAFT_INVALID_ARGUMENT, "struct_size");
  EXPECT_EQ(graft_session_bind(h_.session, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_bind(nullptr, "x", nullptr), GRAFT_INVALID_ARGUMENT);
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_bind(h_.session, "x", nullptr), GRAFT_OK) << "nothing was bound";
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_OK) << "and the input stays";
}

}  // namespace
}  // namespace graft::test::c_api_external_test
