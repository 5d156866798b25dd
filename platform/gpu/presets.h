// Capabilities of other devices, laid over a device's own: how what those would choose is planned, tested and timed
// where they are not at hand.
#pragma once

#include <span>
#include <string_view>

#include "platform/gpu/gpu.h"

namespace graft::gpu {

struct CapsPreset {
  std::string_view name;
  std::string_view summary;
  /// Made-up devices only take away, or rename. Real GPUs replace limits, features and heaps, also by larger ones: to
  /// run kernels under them, see within_device().
  void (*apply)(Caps&);
  std::string_view source = {};  ///< of a real GPU: the public page that its numbers are from
};

std::span<const CapsPreset> caps_presets();

/// Applies the preset `name`; invalid_argument, naming all there are, where there is none of that name.
Status apply_caps_preset(std::string_view name, Caps& caps);

/// What is left of `wanted` on a device that kernels are to run on: no limit and no feature beyond the device's own.
/// The subgroups keep the wanted size: only CPU devices choose kernels that count on it.
Caps within_device(Caps wanted, Caps device);

}  // namespace graft::gpu
