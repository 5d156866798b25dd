// Capabilities of other devices. Put over a device's own, they let us plan, test and time what those devices would
// choose without having them.
#pragma once

#include <span>
#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/figures.h"
#include "platform/gpu/target.h"

namespace graft::gpu {

struct CapsPreset {
  std::string_view name;
  std::string_view summary;
  /// Made-up devices only remove features or rename. Real GPUs replace limits, features and heaps, and may have more
  /// than the device: within_device() restricts them so that kernels can run.
  void (*apply)(Target&);
  std::string_view source = {};  ///< of a real GPU: the public page that its numbers are from
};

std::span<const CapsPreset> caps_presets();

/// Applies the preset `name`, or that of one GPU of known_figures(). invalid_argument, which lists all presets and
/// GPUs, if there is none of that name.
Status apply_caps_preset(std::string_view name, Target& target);

/// `wanted`, restricted to what `device` has, so that kernels can run on it. The subgroup size stays as wanted, because
/// only CPU devices choose kernels that depend on it.
Caps within_device(Caps wanted, Caps device);

}  // namespace graft::gpu
