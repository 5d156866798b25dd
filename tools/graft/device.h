// Opening the device that the user asked for.
#pragma once

#include <memory>
#include <string>

#include "platform/vulkan/vulkan_device.h"
#include "tools/graft/command.h"

namespace graft::cli {

/// --device, --vulkan-library, --validate, --pipeline-cache of every command that runs something.
struct DeviceFlags {
  std::string device;
  std::string library;
  std::string pipeline_cache;
  bool validate = false;
  bool verbose = false;
};

/// --caps of commands that plan: a preset laid over the device's capabilities.
void add_caps_flag(CLI::App& app, std::string& preset);

void add_device_flags(CLI::App& app, DeviceFlags& flags);

/// A device that says on stderr what the validation layers find and, with --verbose, what graft logs.
/// Destroy it through close(), which fails when validation found anything.
class OpenDevice {
 public:
  static Result<std::unique_ptr<OpenDevice>> open(const DeviceFlags& flags);
  gpu::Device& device() { return *device_; }
  Status close();

 private:
  vulkan::ValidationMessages messages_;
  std::unique_ptr<gpu::Device> device_;
};

/// Options for vulkan::enumerate() by the same flags.
vulkan::InstanceOptions instance_options(const DeviceFlags& flags);

}  // namespace graft::cli
