// Capabilities of lesser devices, laid over a device's own: how what those would choose is planned, tested and timed
// where they are not at hand.
#pragma once

#include <span>
#include <string_view>

#include "platform/gpu/gpu.h"

namespace graft::gpu {

struct CapsPreset {
  std::string_view name;
  std::string_view summary;
  void (*apply)(Caps&);  ///< only takes away, or renames
};

std::span<const CapsPreset> caps_presets();

/// Applies the preset `name`; invalid_argument, naming all there are, where there is none of that name.
Status apply_caps_preset(std::string_view name, Caps& caps);

}  // namespace graft::gpu
