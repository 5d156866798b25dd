#include "platform/gpu/caps_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "platform/base/json.h"
#include "platform/gpu/caps_fields.h"

namespace graft::gpu {
namespace {

using json::Value;
using Three = std::array<std::uint32_t, 3>;

constexpr DeviceType kTypes[] = {DeviceType::other, DeviceType::integrated, DeviceType::discrete,
                                 DeviceType::virtual_gpu, DeviceType::cpu};

/// Whole numbers as such, for messages.
std::string number_text(double number) {
  if (number == std::floor(number) && std::abs(number) < 0x1p63) return cat(static_cast<std::int64_t>(number));
  return cat(number);
}

/// A value for a message.
std::string text_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null: return "null";
    case Value::Kind::boolean: return value.truth() ? "true" : "false";
    case Value::Kind::number: return number_text(value.number());
    case Value::Kind::string: return json::quoted(value.text());
    case Value::Kind::array: return value.items().empty() ? "[]" : "a list";
    case Value::Kind::object: return value.members().empty() ? "{}" : "an object";
  }
  return "";
}

template <class T>
Status read_member(const char* name, const Value& value, T& out) {
  const double most = static_cast<double>(std::numeric_limits<T>::max());
  const double number = value.kind() == Value::Kind::number ? value.number() : 0;
  // Doubles hold no largest number of 64 bits: what is rounded to 2^64 is beyond it.
  const bool fits = number >= 1 && number == std::floor(number) && (sizeof(T) < 8 ? number <= most : number < most);
  if (!fits) return invalid("\"", name, "\" is ", shown(text_of(value)), "; it must be an integer from 1 on.");
  out = static_cast<T>(number);
  return ok_status();
}

Status read_member(const char* name, const Value& value, Three& out) {
  if (value.items().size() != out.size()) return invalid("\"", name, "\" is not a list of three numbers.");
  for (std::size_t i = 0; i < out.size(); ++i) GRAFT_TRY(read_member(name, value.items()[i], out[i]));
  return ok_status();
}

Status read_member(const char* name, const Value& value, bool& out) {
  if (value.kind() != Value::Kind::boolean) {
    return invalid("\"", name, "\" is ", shown(text_of(value)), "; it must be true or false.");
  }
  out = value.truth();
  return ok_status();
}

/// What matrix_text() writes.
Status read_member(const char* name, const Value& value, std::vector<MatrixShape>& out) {
  using enum MatrixShape::Operand;
  if (!value.is_array()) return invalid("\"", name, "\" is not a list.");
  for (const Value& text : value.items()) {
    std::array<char, 5> operand{};
    MatrixShape& shape = out.emplace_back();
    const bool read = text.is_string() && std::sscanf(text.text().c_str(), "matrices of %4s %ux%ux%u", operand.data(),
                                                      &shape.m, &shape.n, &shape.k) == 4;
    shape.operand = operand[0] == 'b' ? bf16 : f16;
    if (read && text.text() == matrix_text(shape) && std::min({shape.m, shape.n, shape.k}) > 0) continue;
    return invalid("\"", name, "\" names ", shown(text_of(text)), "; it must be as in \"matrices of f16 16x16x16\".");
  }
  return ok_status();
}

/// Reads each member that `each` knows, and refuses all others but `besides`.
template <class Each>
Status read_members(const char* what, const Value& object, std::vector<std::string> besides, Each each) {
  Status status = ok_status();
  each([&](const char* name, auto& out) {
    besides.emplace_back(name);
    if (const Value* const found = object.find(name); status.ok() && found != nullptr) {
      status = read_member(name, *found, out);
    }
  });
  GRAFT_TRY(status);
  for (const auto& [name, value] : object.members()) {
    if (std::ranges::find(besides, name) == besides.end()) return invalid("There is no ", what, " \"", name, "\".");
  }
  return ok_status();
}

Status read_heaps(const Value& heaps, Caps& caps) {
  if (heaps.items().empty()) return invalid("\"heaps\" is not a list of heaps.");
  caps.heaps.clear();
  for (const Value& heap : heaps.items()) {
    const Value* const bytes = heap.find("bytes");
    if (bytes == nullptr) return invalid("A heap has no \"bytes\".");
    auto& out = caps.heaps.emplace_back();
    out.device_local = true;
    GRAFT_TRY(read_member("bytes", *bytes, out.bytes));
    if (const Value* const local = heap.find("device_local")) {
      GRAFT_TRY(read_member("device_local", *local, out.device_local));
    }
  }
  return ok_status();
}

Status read_type(const Value& type, Caps& caps) {
  for (const DeviceType known : kTypes) {
    if (!type.is_string() || type.text() != type_name(known)) continue;
    caps.type = known;
    return ok_status();
  }
  return invalid("\"type\" is ", shown(text_of(type)), "; it is one of other, integrated, discrete, virtual and cpu.");
}

std::string limit_text(std::uint64_t limit) { return cat(limit); }
std::string limit_text(const Three& limit) { return cat("[", limit[0], ",", limit[1], ",", limit[2], "]"); }

/// Every Vulkan device has this much: a plan for less would be for no device.
Status check_limits(const Caps& caps) {
  Caps least;
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
          status = invalid("\"", name, "\" is ", limit_text(limit), "; every Vulkan device has at least ",
                           limit_text(guaranteed), ".");
        }
      },
      caps, least);
  return status;
}

Status read_device(const Value& object, Caps& caps) {
  const Value* const limits = object.find("limits");
  const Value* const features = object.find("features");
  if (limits != nullptr && !limits->is_object()) return invalid("\"limits\" is not an object.");
  if (features != nullptr && !features->is_object()) return invalid("\"features\" is not an object.");
  if (limits == nullptr && features == nullptr) {
    return invalid("There are neither \"limits\" nor \"features\", as graft devices --json prints them.");
  }
  if (const Value* const name = object.find("name"); name != nullptr && name->is_string()) {
    caps.device_name = name->text();
  }
  if (const Value* const type = object.find("type")) GRAFT_TRY(read_type(*type, caps));
  if (const Value* const heaps = object.find("heaps")) GRAFT_TRY(read_heaps(*heaps, caps));
  if (limits != nullptr) {
    GRAFT_TRY(read_members("limit", *limits, {}, [&](auto read) { each_limit(read, caps); }));
    GRAFT_TRY(check_limits(caps));
  }
  no_matrices(caps);
  if (features == nullptr) return ok_status();
  GRAFT_TRY(read_members("feature", *features, {"timestamps"}, [&](auto read) {
    each_feature(read, caps);
    each_of_matrices(read, caps);
  }));
  if (caps.matrix_subgroup == 0) caps.matrix_subgroup = caps.subgroup_size;
  if (caps.matrix_shapes.empty()) caps.cooperative_matrix = false;
  return ok_status();
}

}  // namespace

const char* type_name(DeviceType type) {
  switch (type) {
    case DeviceType::other: return "other";
    case DeviceType::integrated: return "integrated";
    case DeviceType::discrete: return "discrete";
    case DeviceType::virtual_gpu: return "virtual";
    case DeviceType::cpu: return "cpu";
  }
  return "unknown";
}

std::string matrix_text(const MatrixShape& shape) {
  const char* operand = shape.operand == MatrixShape::Operand::f16 ? "f16" : "bf16";
  return cat("matrices of ", operand, " ", shape.m, "x", shape.n, "x", shape.k);
}

Status read_caps(std::string_view text, const std::string& name, Caps& caps) {
  GRAFT_TRY_ASSIGN(const Value all, json::parse(text).with_context(name));
  const Value& device = all.items().size() == 1 ? all.items().front() : all;
  if (!device.is_object()) return invalid("\"", name, "\" is not a JSON object of one device's capabilities.");
  return read_device(device, caps).with_context(name);
}

}  // namespace graft::gpu
