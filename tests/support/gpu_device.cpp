#include "tests/support/gpu_device.h"

#include <dlfcn.h>

#include <cstdlib>

#include "platform/os/file.h"

#ifdef __SANITIZE_ADDRESS__
// What drivers and layers never free is not graft's leak. Leaks of graft's own Vulkan objects show as validation
// messages.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libvulkan\nleak:libVkLayer\nleak:libvk_swiftshader\nleak:libLLVM\n";
}
#endif

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions() {
  return "race:libVkLayer\n"  // the layers' own threads, which are built without the sanitizer
         "race:ld-linux\n"    // the loader's own memory, under a lock that is not seen
         "race:llvm::sys::DynamicLibrary::getPermanentLibrary\n"  // two devices are opened, one soon after the other
         "deadlock:libVkLayer\n";  // the layers take their own locks in different orders when lists are submitted
}
#endif

namespace graft::test {
namespace {

/// Suppressions go by library name, which is lost when a library is unloaded before the leak check at exit.
void keep_drivers_loaded() {
#ifdef __SANITIZE_ADDRESS__
  for (const char* name :
       {"libvulkan_lvp.so", "/usr/lib/chromium/libvk_swiftshader.so", "libVkLayer_khronos_validation.so"}) {
    (void)dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
#endif
}

constexpr const char* kIcdFolder = "/usr/share/vulkan/icd.d";
constexpr const char* kLayerFolder = "/usr/share/vulkan/explicit_layer.d";
constexpr const char* kSwiftShader = "/usr/lib/chromium/vk_swiftshader_icd.json";

std::string environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

/// Lets the loader see one driver only: the others cost start-up time, and SwiftShader is in no standard folder.
void use_driver(const std::string& manifest) {
  setenv("VK_DRIVER_FILES", manifest.c_str(), 1);
  setenv("VK_ICD_FILENAMES", manifest.c_str(), 1);  // the name that older loaders know
}

std::string lavapipe_manifest() {
  const auto entries = os::system_files().list(kIcdFolder);
  if (!entries.ok()) return {};
  for (const auto& entry : *entries) {
    if (entry.name.starts_with("lvp_icd")) return cat(kIcdFolder, "/", entry.name);
  }
  return {};
}

bool validation_wanted() {
  return environment("GRAFT_TEST_VALIDATION", "1") != "0" &&
         os::exists(os::system_files(), cat(kLayerFolder, "/VkLayer_khronos_validation.json"));
}

}  // namespace

vulkan::ValidationMessages& validation_messages() {
  static vulkan::ValidationMessages messages;
  return messages;
}

vulkan::DeviceOptions device_options_for(const std::string& name) {
  keep_drivers_loaded();
  // The loader reads these at each instance; what the user has set is kept for devices that are not ours to find.
  static const std::string given_drivers = environment("VK_DRIVER_FILES", "");
  static const std::string given_icds = environment("VK_ICD_FILENAMES", "");
  vulkan::DeviceOptions options;
  options.device = name;
  if (name == "lavapipe" && !lavapipe_manifest().empty()) {
    use_driver(lavapipe_manifest());
  } else if (name == "swiftshader") {
    use_driver(kSwiftShader);
  } else {
    given_drivers.empty() ? unsetenv("VK_DRIVER_FILES") : setenv("VK_DRIVER_FILES", given_drivers.c_str(), 1);
    given_icds.empty() ? unsetenv("VK_ICD_FILENAMES") : setenv("VK_ICD_FILENAMES", given_icds.c_str(), 1);
  }
  if (validation_wanted()) options.instance.validation = &validation_messages();
  options.assume_discrete = environment("GRAFT_TEST_MEMORY", "") == "discrete";
  return options;
}

vulkan::DeviceOptions test_device_options() { return device_options_for(environment("GRAFT_TEST_DEVICE", "lavapipe")); }

Result<std::unique_ptr<gpu::Device>> test_device() { return vulkan::create_device(test_device_options()); }

void expect_no_validation_messages() {
  for (const std::string& message : validation_messages().take()) ADD_FAILURE() << "Validation layer: " << message;
}

}  // namespace graft::test
