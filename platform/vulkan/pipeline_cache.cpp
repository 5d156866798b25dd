#include "platform/vulkan/pipeline_cache.h"

#include <array>
#include <cstring>

#include "platform/base/hash.h"

namespace graft::vulkan {
namespace {

constexpr std::uint64_t kMaxFileBytes = 256ull << 20;  // real caches have a few MiB
constexpr std::array<char, 8> kMagic = {'G', 'R', 'F', 'T', 'P', 'I', 'P', '1'};

/// Stands before the driver's data. Host byte order: the file never leaves its device.
struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t reserved = 0;
  std::array<std::uint8_t, VK_UUID_SIZE> uuid{};
  std::uint64_t data_bytes = 0;
  Hash128 checksum;  ///< of the driver's data
};

Header make_header(const PhysicalDevice& device, std::span<const std::byte> data) {
  Header header;
  header.vendor_id = device.target.caps.vendor_id;
  header.device_id = device.target.caps.device_id;
  header.driver_version = device.target.caps.driver_version;
  header.uuid = device.pipeline_cache_uuid;
  header.data_bytes = data.size();
  header.checksum = hash128(data);
  return header;
}

}  // namespace

void PipelineCache::destroy() {
  if (handle_ != VK_NULL_HANDLE) context_.fn.DestroyPipelineCache(context_.device, handle_, nullptr);
}

std::vector<std::byte> PipelineCache::load() {
  if (path_.empty()) return {};
  const auto ignore = [&](const auto&... why) {
    context_.log(LogLevel::warning, "The pipeline cache \"", path_, "\" is ignored: ", why...);
    return std::vector<std::byte>{};
  };
  const auto file = os::read_file(*files_, path_, kMaxFileBytes);
  if (!file.ok())
    return file.status().code() == Code::not_found ? std::vector<std::byte>{} : ignore(file.status().message());
  const auto bytes = file->bytes();
  Header found;
  if (bytes.size() < sizeof(Header)) return ignore("it has only ", bytes.size(), " bytes.");
  std::memcpy(&found, bytes.data(), sizeof(Header));
  const auto data = bytes.subspan(sizeof(Header));
  if (found.magic != kMagic) return ignore("it is not a pipeline cache of graft.");
  const Header wanted = make_header(context_.physical, data);
  if (found.data_bytes != wanted.data_bytes || found.checksum != wanted.checksum) return ignore("it is damaged.");
  if (std::memcmp(&found, &wanted, sizeof(Header)) != 0) return ignore("it belongs to another device or driver.");
  return {data.begin(), data.end()};
}

Status PipelineCache::initialize(os::FileSystem& files, const std::string& path) {
  files_ = &files;
  path_ = context_.target().quirks.pipeline_cache ? path : std::string();
  if (!context_.target().quirks.pipeline_cache) return ok_status();
  const std::vector<std::byte> data = load();
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = data.size();
  info.pInitialData = data.empty() ? nullptr : data.data();
  VkPipelineCache made = VK_NULL_HANDLE;
  const VkResult result = GRAFT_VK_DEVICE_CALL(context_, CreatePipelineCache, &info, nullptr, &made);
  if (result == VK_SUCCESS) {
    destroy();
    handle_ = made;
    return ok_status();
  }
  return context_.failed(result, "vkCreatePipelineCache", "Creating the pipeline cache");
}

Status PipelineCache::save() {
  if (path_.empty()) return ok_status();
  std::vector<std::byte> data;
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {
    std::size_t bytes = 0;
    result = GRAFT_VK_DEVICE_CALL(context_, GetPipelineCacheData, handle_, &bytes, nullptr);
    if (result != VK_SUCCESS) break;
    data.resize(bytes);
    result = GRAFT_VK_DEVICE_CALL(context_, GetPipelineCacheData, handle_, &bytes, data.data());
    data.resize(bytes);
  }
  if (result != VK_SUCCESS) return context_.failed(result, "vkGetPipelineCacheData", "Reading the pipeline cache");
  const Header header = make_header(context_.physical, data);
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(&header, 1)), data};
  return os::atomic_write_file(*files_, path_, parts);
}

}  // namespace graft::vulkan
