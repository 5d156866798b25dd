#include "graft/devices.h"

#include <algorithm>

#include "platform/gpu/caps_fields.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_kernel_report.h"
#include "runtime/report/rounding.h"

struct graft_devices {
  std::unique_ptr<graft_context> context;  ///< never opened: the log and the message
  std::vector<graft::gpu::Target> targets = {};
  std::vector<std::vector<std::string>> matrices = {};  ///< of each device
  std::string file = {};                                ///< of the last graft_devices_remembered()
};

using namespace graft;
using namespace graft::c_api;

namespace {

std::string matrix_text(const char* of, const gpu::MatrixShape& shape) {
  const char* operand = shape.operand == gpu::MatrixShape::Operand::f16 ? "f16" : "bf16";
  return cat(of, operand, " ", shape.m, "x", shape.n, "x", shape.k);
}

graft_device_fact fact_of(const char* name, bool is_feature) {
  graft_device_fact out{};
  out.name = name;
  out.is_feature = is_feature ? 1 : 0;
  return out;
}

void set_values(graft_device_fact& out, std::uint64_t value) {
  out.values[0] = value;
  out.value_count = 1;
}
void set_values(graft_device_fact& out, const std::array<std::uint32_t, 3>& values) {
  std::ranges::copy(values, out.values);
  out.value_count = 3;
}

std::vector<graft_device_fact> facts_of(const gpu::Caps& caps, const std::vector<std::string>& matrices) {
  std::vector<graft_device_fact> facts;
  gpu::each_limit(
      [&](const char* name, const auto& limit) { set_values(facts.emplace_back(fact_of(name, false)), limit); }, caps);
  gpu::each_feature(
      [&](const char* name, bool feature) { set_values(facts.emplace_back(fact_of(name, true)), feature); }, caps);
  for (const std::string& text : matrices) {
    graft_device_fact& fact = facts.emplace_back(fact_of("matrices", true));
    set_values(fact, 1);
    fact.text = text.c_str();
  }
  return facts;
}

/// work(target) for the device of that index.
template <typename Work>
graft_status with_device(graft_devices* devices, std::size_t index, Work work) {
  if (devices == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(devices->context.get(), [&]() -> Status {
    if (index < devices->targets.size()) return work(devices->targets[index]);
    return error(Code::not_found, "There are ", devices->targets.size(), " devices; number ", index, " is not one.");
  });
}

}  // namespace

graft_status graft_devices_find(const graft_context_options* options, graft_devices** devices) {
  if (devices == nullptr) return GRAFT_INVALID_ARGUMENT;
  *devices = new (std::nothrow) graft_devices();
  if (*devices == nullptr) return GRAFT_OUT_OF_MEMORY;
  graft_context_options wanted{};
  if (options != nullptr) std::memcpy(&wanted, options, std::min(options->struct_size, sizeof wanted));
  wanted.struct_size = sizeof wanted;
  wanted.device = "none";
  graft_context* context = nullptr;
  const graft_status made = graft_context_create(&wanted, &context);
  (*devices)->context.reset(context);
  if (made != GRAFT_OK) return made;
  return guarded(context, [&]() -> Status {
    graft_devices& found = **devices;
    GRAFT_TRY_ASSIGN(found.targets, vulkan::enumerate(context->device_options.instance));
    for (const gpu::Target& target : found.targets) {
      auto& texts = found.matrices.emplace_back();
      for (const auto& shape : target.caps.matrix_shapes) texts.push_back(matrix_text("matrices of ", shape));
      for (const auto& shape : target.caps.flexible_shapes) {
        texts.push_back(matrix_text("multiples of matrices of ", shape));
      }
    }
    return ok_status();
  });
}

void graft_devices_destroy(graft_devices* devices) { delete devices; }

const char* graft_devices_message(const graft_devices* devices) {
  return devices == nullptr || devices->context == nullptr ? "" : graft_message(devices->context.get());
}

size_t graft_devices_count(const graft_devices* devices) { return devices == nullptr ? 0 : devices->targets.size(); }

graft_status graft_devices_info(graft_devices* devices, size_t index, graft_device_info* info) {
  return with_device(devices, index, [&](const gpu::Target& target) {
    const gpu::Caps& caps = target.caps;
    graft_device_info out{};
    out.name = caps.device_name.c_str();
    out.driver = caps.driver_name.c_str();
    out.driver_info = caps.driver_info.c_str();
    out.type = static_cast<graft_device_type>(caps.type);
    out.vendor_id = caps.vendor_id;
    out.device_id = caps.device_id;
    out.api_version[0] = caps.api_version >> 22 & 0x7f;
    out.api_version[1] = caps.api_version >> 12 & 0x3ff;
    out.api_version[2] = caps.api_version & 0xfff;
    for (const gpu::Caps::Heap& heap : caps.heaps) out.memory += heap.device_local ? heap.bytes : 0;
    out.largest_heap = gpu::largest_heap(caps);
    out.unified_memory = caps.unified_memory ? 1 : 0;
    out.timestamps = caps.timestamp_period_ns > 0 ? 1 : 0;
    out.matrix_subgroup = caps.matrix_subgroup;
    out.max_flexible_side = caps.max_flexible_side;
    return write_info(out, info, "graft_device_info");
  });
}

graft_status graft_devices_heap(graft_devices* devices, size_t index, size_t heap, graft_device_heap* out) {
  return with_device(devices, index, [&](const gpu::Target& target) -> Status {
    const auto& heaps = target.caps.heaps;
    if (heap >= heaps.size()) {
      return error(Code::not_found, "The device has ", heaps.size(), " heaps; number ", heap, " is not one.");
    }
    return write_info(graft_device_heap{0, heaps[heap].bytes, heaps[heap].device_local ? 1 : 0}, out,
                      "graft_device_heap");
  });
}

graft_status graft_devices_remembered(graft_devices* devices, size_t index, const char* folder,
                                      graft_kernel_report report, graft_tuned_report tuned, void* user,
                                      const char** file) {
  return with_device(devices, index, [&](const gpu::Target& target) -> Status {
    if (folder == nullptr) return invalid("graft_devices_remembered needs a folder.");
    const graft_context& context = *devices->context;
    const auto profile = DeviceProfile::open(*context.files, folder, target.caps, context.log);
    const CallbackScope in_callback;
    if (report != nullptr) tell(*profile, report, user);
    if (tuned != nullptr) {
      for (const auto& [choice, variant] : profile->tuned()) tuned(user, choice.c_str(), variant.c_str());
    }
    devices->file = profile->path();
    if (file != nullptr) *file = devices->file.c_str();
    return ok_status();
  });
}

graft_status graft_devices_fact(graft_devices* devices, size_t index, size_t fact, graft_device_fact* out) {
  return with_device(devices, index, [&](const gpu::Target& target) -> Status {
    const auto facts = facts_of(target.caps, devices->matrices[index]);
    if (fact < facts.size()) return write_info(facts[fact], out, "graft_device_fact");
    return error(Code::not_found, "There are ", facts.size(), " facts of a device; number ", fact, " is not one.");
  });
}

graft_status graft_devices_quirk(graft_devices* devices, size_t index, size_t quirk, graft_device_quirk* out) {
  return with_device(devices, index, [&](const gpu::Target& target) -> Status {
    const auto& applied = target.quirks.applied;
    if (quirk >= applied.size()) {
      return error(Code::not_found, "The device has ", applied.size(), " quirks; number ", quirk, " is not one.");
    }
    const auto& one = applied[quirk];
    const graft_device_quirk found{0, one.name.c_str(), one.action.c_str(), one.reason.c_str(), one.link.c_str()};
    return write_info(found, out, "graft_device_quirk");
  });
}

graft_status graft_context_rounding(graft_context* context, graft_rounding* rounding) {
  return guarded(context, [&]() -> Status {
    const Rounding found = rounding_of(target_of(*context));
    graft_rounding out{};
    out.rounds = found.rounds ? 1 : 0;
    out.to_f16 = found.to_f16 ? 1 : 0;
    out.to_bf16 = found.to_bf16 ? 1 : 0;
    out.to_8_bits = found.to_8_bits ? 1 : 0;
    return write_info(out, rounding, "graft_rounding");
  });
}
