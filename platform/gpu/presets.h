// Capabilities of other devices, laid over a device's own, so that what they would choose can be planned, tested and
// timed without them.
#pragma once

#include <span>
#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/target.h"

namespace graft::gpu {

struct CapsPreset {
  std::string_view name;
  std::string_view summary;
  /// Made-up devices only take away, or rename. Real GPUs replace limits, features and heaps, also with larger ones:
  /// within_device() restricts them so that kernels can run.
  void (*apply)(Target&);
  std::string_view source = {};  ///< of a real GPU: the public page that its numbers are from
};

std::span<const CapsPreset> caps_presets();

/// Applies the preset `name`; invalid_argument, naming all there are, where there is none of that name.
Status apply_caps_preset(std::string_view name, Target& target);

/// `wanted`, restricted to what `device` has, so that kernels can run there. The subgroup size stays as wanted: only
/// CPU devices choose kernels that depend on it.
Caps within_device(Caps wanted, Caps device);

}  // namespace graft::gpu
