#include "tools/bench/caps_json.h"

#include <type_traits>

#include "platform/gpu/caps_fields.h"
#include "platform/os/file.h"

namespace graft::cli {

nlohmann::ordered_json caps_json(const gpu::Caps& given) {
  gpu::Caps caps = given;
  nlohmann::ordered_json heaps = nlohmann::ordered_json::array();
  for (const auto& heap : caps.heaps) heaps.push_back({{"bytes", heap.bytes}, {"device_local", heap.device_local}});
  nlohmann::ordered_json limits = nlohmann::ordered_json::object();
  gpu::each_limit([&](const char* name, const auto& limit) { limits[name] = limit; }, caps);
  nlohmann::ordered_json features = nlohmann::ordered_json::object();
  gpu::each_feature([&](const char* name, bool feature) { features[name] = feature; }, caps);
  const auto write = [&]<class T>(const char* name, const T& member) {
    if constexpr (std::is_integral_v<T>) {
      if (member != 0) features[name] = member;
    } else {
      features[name] = nlohmann::ordered_json::array();
      for (const gpu::MatrixShape& shape : member) features[name].push_back(gpu::matrix_text(shape));
    }
  };
  gpu::each_of_matrices(write, caps);
  features["timestamps"] = caps.timestamp_period_ns > 0;
  return {{"name", caps.device_name},
          {"type", gpu::type_name(caps.type)},
          {"heaps", heaps},
          {"limits", limits},
          {"features", features}};
}

Status read_caps_file(const std::string& path, gpu::Caps& caps) {
  TRY_ASSIGN(const auto file, os::system_files().map(path));
  const std::span<const std::byte> bytes = file->bytes();
  return gpu::read_caps({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, caps);
}

}  // namespace graft::cli
