#include "tools/graft/public_api.h"

#include <cstdio>

#include "graft/cache.h"

namespace graft::cli {
namespace {

void write_log(void*, graft_log_level level, const char* message) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  std::fprintf(stderr, "graft [%s] %s\n", kNames[level], message);
}

}  // namespace

Status checked(graft_status status, const graft_context* context) {
  if (status == GRAFT_OK) return {};
  return error(static_cast<Code>(status), graft_message(context));
}

Result<Owned<graft_context>> open_context(const DeviceFlags& flags) {
  graft_context_options options = {};
  options.struct_size = sizeof options;
  if (!flags.device.empty()) options.device = flags.device.c_str();
  if (!flags.library.empty()) options.vulkan_library = flags.library.c_str();
  options.log = write_log;
  options.log_level = flags.verbose ? GRAFT_LOG_DEBUG : GRAFT_LOG_ERROR;
  if (flags.matmul_precision == "high") options.matmul_precision = GRAFT_MATMUL_HIGH;
  if (flags.matmul_precision == "medium") options.matmul_precision = GRAFT_MATMUL_MEDIUM;
  graft_context* made = nullptr;
  const graft_status created = graft_context_create(&options, &made);
  Owned<graft_context> context(made);
  TRY(checked(created, made));
  graft_cache_options cache = {};
  cache.struct_size = sizeof cache;
  const std::string folder = cache_folder(flags);
  cache.folder = folder.c_str();
  cache.skip_self_test = flags.no_self_test ? 1 : 0;
  if (!folder.empty()) TRY(checked(graft_context_open_cache(made, &cache), made));
  return context;
}

Result<Owned<graft_model>> open_model(graft_context* context, const std::string& path) {
  graft_model* made = nullptr;
  const graft_status loaded = graft_model_load(context, path.c_str(), &made);
  Owned<graft_model> model(made);
  TRY(checked(loaded, context));
  return model;
}

void add_public_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "Index or part of the name of the device (see: graft devices)");
  app.add_option("--vulkan-library", flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_option("--matmul-precision", flags.matmul_precision, "Products of f32 values: highest, high or medium")
      ->check(CLI::IsMember({"highest", "high", "medium"}));
  app.add_option("--cache", flags.cache, "Folder for what is remembered of the device; \"none\" for no files");
  app.add_flag("--no-self-test", flags.no_self_test, "Use kernels on this device without testing them first");
  app.add_flag("--verbose", flags.verbose, "Show graft's log on stderr");
}

}  // namespace graft::cli
