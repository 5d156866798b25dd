#include "platform/gpu/presets.h"

#include <algorithm>
#include <string>

namespace graft::gpu {
namespace {

void no_small_types(Caps& caps) {
  caps.shader_float16 = caps.shader_int8 = caps.storage_16bit = caps.storage_8bit = caps.integer_dot = false;
}

void no_subgroups(Caps& caps) {
  caps.subgroup_size = 1;
  caps.subgroup_basic = caps.subgroup_arithmetic = caps.subgroup_shuffle = false;
}

// What Vulkan 1.1 guarantees of a workgroup.
void least(Caps& caps) {
  caps.max_shared_memory = 16384;
  caps.max_workgroup_invocations = 128;
  caps.max_workgroup_size = {128, 128, 64};
  caps.cooperative_matrix = caps.shader_bfloat16 = false;
  caps.matrix_shapes.clear();
  no_small_types(caps);
}

constexpr CapsPreset kPresets[] = {
    {"small", "16 KiB of shared memory, 128 invocations, no 16-bit or 8-bit types", least},
    {"plain", "the same, and no subgroup operations",
     [](Caps& caps) {
       least(caps);
       no_subgroups(caps);
     }},
    {"subgroup4", "subgroups of 4", [](Caps& caps) { caps.subgroup_size = 4; }},
    {"subgroup128", "subgroups of 128", [](Caps& caps) { caps.subgroup_size = 128; }},
    {"rounded", "f32 operands of products may be rounded to f16 for matrix units",
     [](Caps& caps) { caps.rounded_products = true; }},
    {"gpu", "the choices of a discrete GPU", [](Caps& caps) { caps.type = DeviceType::discrete; }},
};

}  // namespace

std::span<const CapsPreset> caps_presets() { return kPresets; }

Status apply_caps_preset(std::string_view name, Caps& caps) {
  std::string names;
  for (const CapsPreset& preset : kPresets) {
    if (preset.name == name) {
      preset.apply(caps);
      return ok_status();
    }
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  return invalid("There are no capabilities \"", name, "\"; there are: ", names, ".");
}

}  // namespace graft::gpu
