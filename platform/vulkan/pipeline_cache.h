// The pipeline cache and its file. The file is disposable: any doubt about it, and it is ignored.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "platform/vulkan/context.h"

namespace graft::vulkan {

class PipelineCache {
 public:
  explicit PipelineCache(Context& context) : context_(context) {}
  ~PipelineCache() { destroy(); }
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  /// Starts from the file where it is there and whole; again, from another. Only a failing Vulkan call is an error.
  /// Without effect where Quirks::pipeline_cache is false.
  Status initialize(os::FileSystem& files, const std::string& path);
  Status save();
  VkPipelineCache handle() const { return handle_; }

 private:
  std::vector<std::byte> load();
  void destroy();

  Context& context_;
  os::FileSystem* files_ = nullptr;
  std::string path_;
  VkPipelineCache handle_ = VK_NULL_HANDLE;
};

}  // namespace graft::vulkan
