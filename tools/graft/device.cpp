#include "tools/graft/device.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "platform/gpu/presets.h"

namespace graft::cli {
namespace {

void write_log(void*, LogLevel level, std::string_view message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  std::fprintf(stderr, "graft [%s] %.*s\n", kNames[static_cast<int>(level)], static_cast<int>(message.size()),
               message.data());
}

// Where compiled pipelines are kept between runs: the user's cache folder.
std::string default_cache_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/graft/pipelines.bin";
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/graft/pipelines.bin";
  return {};
}

}  // namespace

void add_caps_flag(CLI::App& app, std::string& preset) {
  std::string names;
  for (const gpu::CapsPreset& p : gpu::caps_presets()) names += cat(names.empty() ? "" : "; ", p.name, ": ", p.summary);
  app.add_option("--caps", preset, "Plan as for a device with other capabilities (" + names + ")");
}

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "Index or part of the name of the device (see: graft devices)");
  app.add_option("--vulkan-library", flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_option("--pipeline-cache", flags.pipeline_cache, "File for compiled pipelines; \"none\" for no file");
  app.add_flag("--validate", flags.validate, "Run under the Vulkan validation layers; any message is a failure");
  app.add_flag("--verbose", flags.verbose, "Show graft's log on stderr");
}

vulkan::InstanceOptions instance_options(const DeviceFlags& flags) {
  vulkan::InstanceOptions options;
  options.library = flags.library;
  options.log = {write_log, nullptr, flags.verbose ? LogLevel::debug : LogLevel::error};
  return options;
}

Result<std::unique_ptr<OpenDevice>> OpenDevice::open(const DeviceFlags& flags) {
  auto opened = std::make_unique<OpenDevice>();
  vulkan::DeviceOptions options;
  options.instance = instance_options(flags);
  if (flags.validate) options.instance.validation = &opened->messages_;
  options.device = flags.device;
  options.pipeline_cache_path = flags.pipeline_cache.empty() ? default_cache_path() : flags.pipeline_cache;
  if (options.pipeline_cache_path == "none") options.pipeline_cache_path.clear();
  if (!options.pipeline_cache_path.empty()) {
    // A cache that cannot be kept costs time, nothing else.
    (void)os::make_directories(os::system_files(), os::parent_directory(options.pipeline_cache_path));
  }
  GRAFT_TRY_ASSIGN(opened->device_, vulkan::create_device(options));
  return opened;
}

Status OpenDevice::close() {
  const Status saved = device_->save_pipeline_cache();
  if (!saved.ok()) write_log(nullptr, LogLevel::warning, saved.message());
  device_.reset();
  const auto messages = messages_.take();
  for (const std::string& message : messages) std::fprintf(stderr, "validation: %s\n", message.c_str());
  if (messages.empty()) return ok_status();
  return error(Code::device_error, "The validation layers reported ", messages.size(), " problems (above).");
}

}  // namespace graft::cli
