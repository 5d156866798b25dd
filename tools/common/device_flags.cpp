#include "tools/common/device_flags.h"

#include <cstdlib>
#include <vector>

#include "tools/common/help.h"
#include "tools/common/numbers.h"

namespace graft::cli {

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  const HelpGroup group(app, "Device");
  app.add_option("--device", flags.device, "Index or part of the name of the device (see: graft devices)");
  app.add_option("--vulkan-library", flags.library, "Loader or driver to load instead of libvulkan.so.1");
  app.add_option("--matmul-precision", flags.matmul_precision,
                 "Products of f32 values: highest (f32, the default), high (rounded to f16 where the device has matrix "
                 "units, sums in f32), medium (also to 8 bits beside quantized weights, to bf16 beside bf16 operands)")
      ->check(CLI::IsMember(std::vector<std::string>(kMatmulPrecisions.begin(), kMatmulPrecisions.end())));
  app.add_option("--cache", flags.cache,
                 "Folder for compiled pipelines, verdicts of the self-test and tuned choices; \"none\" for no files");
  app.add_flag("--no-self-test", flags.no_self_test, "Use kernels on this device without testing them first");
  app.add_flag("--validate", flags.validate, "Run under the Vulkan validation layers; any message is a failure");
  app.add_flag("--verbose", flags.verbose, "Show graft's log on stderr");
}

void add_pace_flags(CLI::App& app, DeviceFlags& flags) {
  const HelpGroup group(app, "Device");
  app.add_option(
         "--slice-ms", flags.slice_ms,
         "Let others use the device after so many milliseconds: longer submissions are cut, large dispatches too")
      ->check(number(0.5, 60e3));
  app.add_option("--duty", flags.duty, "Share of time in which the device may work; the rest it idles")
      ->check(number(0.01, 1));
}

std::string cache_folder(const DeviceFlags& flags) {
  if (flags.cache == "none") return {};
  if (!flags.cache.empty()) return flags.cache;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/graft";
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/graft";
  return {};
}

}  // namespace graft::cli
