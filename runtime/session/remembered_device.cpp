#include "runtime/session/remembered_device.h"

namespace graft {

Result<std::unique_ptr<RememberedDevice>> RememberedDevice::open(os::FileSystem& files, const std::string& folder,
                                                                 gpu::Device& device, const LogSink& log,
                                                                 bool self_test) {
  auto profile = DeviceProfile::open(files, folder, device.caps(), log);
  device.set_advice(profile->advice());
  const std::string pipelines = profile->pipeline_cache_path();
  if (!pipelines.empty()) GRAFT_TRY(device.open_pipeline_cache(pipelines));
  return std::unique_ptr<RememberedDevice>(new RememberedDevice(std::move(profile), log, self_test));
}

}  // namespace graft
