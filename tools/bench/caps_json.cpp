#include "tools/bench/caps_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <functional>
#include <limits>
#include <type_traits>

#include "platform/gpu/caps_fields.h"
#include "platform/os/file.h"
#include "tools/convert/common/json_access.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;  // to write; its look-up walks through all members, of which a file may have many
using Parsed = nlohmann::json;
using gpu::each_feature;
using gpu::each_limit;
using Three = std::array<std::uint32_t, 3>;

constexpr gpu::DeviceType kTypes[] = {gpu::DeviceType::other, gpu::DeviceType::integrated, gpu::DeviceType::discrete,
                                      gpu::DeviceType::virtual_gpu, gpu::DeviceType::cpu};

template <class T>
Status read_member(const char* name, const Parsed& value, T& out) {
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                    value.get<std::uint64_t>() <= std::numeric_limits<T>::max();
  if (!fits) return invalid("\"", name, "\" is ", shown(value.dump()), "; it must be an integer from 1 on.");
  out = value.get<T>();
  return ok_status();
}

Status read_member(const char* name, const Parsed& value, Three& out) {
  if (!value.is_array() || value.size() != out.size()) return invalid("\"", name, "\" is not a list of three numbers.");
  for (std::size_t i = 0; i < out.size(); ++i) TRY(read_member(name, value[i], out[i]));
  return ok_status();
}

Status read_member(const char* name, const Parsed& value, bool& out) {
  if (!value.is_boolean()) return invalid("\"", name, "\" is ", shown(value.dump()), "; it must be true or false.");
  out = value.get<bool>();
  return ok_status();
}

/// What matrix_text() writes.
Status read_member(const char* name, const Parsed& value, std::vector<gpu::MatrixShape>& out) {
  using enum gpu::MatrixShape::Operand;
  if (!value.is_array()) return invalid("\"", name, "\" is not a list.");
  for (const Parsed& text : value) {
    std::array<char, 5> operand{};
    gpu::MatrixShape& shape = out.emplace_back();
    const bool read = text.is_string() && std::sscanf(text.get<std::string>().c_str(), "matrices of %4s %ux%ux%u",
                                                      operand.data(), &shape.m, &shape.n, &shape.k) == 4;
    shape.operand = operand[0] == 'b' ? bf16 : f16;
    if (read && text == matrix_text(shape) && std::min({shape.m, shape.n, shape.k}) > 0) continue;
    return invalid("\"", name, "\" names ", shown(text.dump()), "; it must be as in \"matrices of f16 16x16x16\".");
  }
  return ok_status();
}

/// Reads each member that `each` knows, and refuses all others but `besides`.
template <class Each>
Status read_members(const char* what, const Parsed& object, std::vector<std::string> besides, Each each) {
  Status status = ok_status();
  each([&](const char* name, auto& out) {
    besides.emplace_back(name);
    if (status.ok() && object.contains(name)) status = read_member(name, object[name], out);
  });
  TRY(status);
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(besides, name) == besides.end()) return invalid("There is no ", what, " \"", name, "\".");
  }
  return ok_status();
}

Status read_heaps(const Parsed& heaps, gpu::Caps& caps) {
  if (!heaps.is_array() || heaps.empty()) return invalid("\"heaps\" is not a list of heaps.");
  caps.heaps.clear();
  for (const Parsed& heap : heaps) {
    if (!heap.is_object() || !heap.contains("bytes")) return invalid("A heap has no \"bytes\".");
    auto& out = caps.heaps.emplace_back();
    out.device_local = true;
    TRY(read_member("bytes", heap["bytes"], out.bytes));
    if (heap.contains("device_local")) TRY(read_member("device_local", heap["device_local"], out.device_local));
  }
  return ok_status();
}

Status read_type(const Parsed& type, gpu::Caps& caps) {
  for (const gpu::DeviceType known : kTypes) {
    if (type != type_name(known)) continue;
    caps.type = known;
    return ok_status();
  }
  return invalid("\"type\" is ", type.dump(), "; it is one of other, integrated, discrete, virtual and cpu.");
}

/// Every Vulkan device has this much: a plan for less would be for no device.
Status check_limits(const gpu::Caps& caps) {
  gpu::Caps least;
  least.max_storage_buffers_per_stage = 4;
  for (const std::uint32_t power : {caps.storage_buffer_alignment, caps.subgroup_size}) {
    if (!std::has_single_bit(power) || power > 256) {
      return invalid("\"storage_buffer_alignment\" and \"subgroup_size\" must be powers of two up to 256, not ", power,
                     ".");
    }
  }
  Status status = ok_status();
  each_limit(
      [&]<class T>(std::string_view name, const T& limit, const T& guaranteed) {
        if (name == "storage_buffer_alignment" || !status.ok()) return;
        bool enough = true;
        if constexpr (std::is_integral_v<T>) {
          enough = limit >= guaranteed;
        } else {
          enough = std::ranges::equal(limit, guaranteed, std::ranges::greater_equal());
        }
        if (!enough) {
          status = invalid("\"", name, "\" is ", Json(limit).dump(), "; every Vulkan device has at least ",
                           Json(guaranteed).dump(), ".");
        }
      },
      caps, least);
  return status;
}

Status read_caps(const Parsed& object, gpu::Caps& caps) {
  for (const char* part : {"limits", "features"}) {
    if (object.contains(part) && !object[part].is_object()) return invalid("\"", part, "\" is not an object.");
  }
  if (!object.contains("limits") && !object.contains("features")) {
    return invalid("There are neither \"limits\" nor \"features\", as graft devices --json prints them.");
  }
  if (object.contains("name") && object["name"].is_string()) caps.device_name = object["name"].get<std::string>();
  if (object.contains("type")) TRY(read_type(object["type"], caps));
  if (object.contains("heaps")) TRY(read_heaps(object["heaps"], caps));
  if (object.contains("limits")) {
    TRY(read_members("limit", object["limits"], {}, [&](auto read) { each_limit(read, caps); }));
    TRY(check_limits(caps));
  }
  gpu::no_matrices(caps);
  if (!object.contains("features")) return ok_status();
  TRY(read_members("feature", object["features"], {"timestamps"}, [&](auto read) {
    each_feature(read, caps);
    gpu::each_of_matrices(read, caps);
  }));
  if (caps.matrix_subgroup == 0) caps.matrix_subgroup = caps.subgroup_size;
  if (caps.matrix_shapes.empty()) caps.cooperative_matrix = false;
  return ok_status();
}

}  // namespace

const char* type_name(gpu::DeviceType type) {
  switch (type) {
    case gpu::DeviceType::other: return "other";
    case gpu::DeviceType::integrated: return "integrated";
    case gpu::DeviceType::discrete: return "discrete";
    case gpu::DeviceType::virtual_gpu: return "virtual";
    case gpu::DeviceType::cpu: return "cpu";
  }
  return "unknown";
}

std::string matrix_text(const gpu::MatrixShape& shape) {
  const char* operand = shape.operand == gpu::MatrixShape::Operand::f16 ? "f16" : "bf16";
  return cat("matrices of ", operand, " ", shape.m, "x", shape.n, "x", shape.k);
}

Json caps_json(const gpu::Caps& given) {
  gpu::Caps caps = given;
  Json heaps = Json::array();
  for (const auto& heap : caps.heaps) heaps.push_back({{"bytes", heap.bytes}, {"device_local", heap.device_local}});
  Json limits = Json::object();
  each_limit([&](const char* name, const auto& limit) { limits[name] = limit; }, caps);
  Json features = Json::object();
  each_feature([&](const char* name, bool feature) { features[name] = feature; }, caps);
  const auto write = [&]<class T>(const char* name, const T& member) {
    if constexpr (std::is_integral_v<T>) {
      if (member != 0) features[name] = member;
    } else {
      features[name] = Json::array();
      for (const gpu::MatrixShape& shape : member) features[name].push_back(matrix_text(shape));
    }
  };
  gpu::each_of_matrices(write, caps);
  features["timestamps"] = caps.timestamp_period_ns > 0;
  return {{"name", caps.device_name},
          {"type", type_name(caps.type)},
          {"heaps", heaps},
          {"limits", limits},
          {"features", features}};
}

Status read_caps_file(const std::string& path, gpu::Caps& caps) {
  TRY_ASSIGN(const auto file, os::system_files().map(path));
  const std::span<const std::byte> bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TRY_ASSIGN(const Parsed all, convert::parse_json(text).with_context(path));
  const Parsed& json = all.is_array() && all.size() == 1 ? all[0] : all;
  if (!json.is_object()) return invalid("\"", path, "\" is not a JSON object of one device's capabilities.");
  return read_caps(json, caps).with_context(path);
}

}  // namespace graft::cli
