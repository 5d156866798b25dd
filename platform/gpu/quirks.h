// Known faults of Vulkan drivers that matter to compute. One table corrects what a driver reports when its device is
// opened. The self-test finds faults that the table does not know.
#pragma once

#include <span>
#include <string_view>

#include "platform/gpu/target.h"

namespace graft::gpu {

enum class QuirkAction : std::uint8_t {
  baseline_only,  ///< nothing beyond Vulkan 1.1 core
  no_subgroup_arithmetic,
  no_subgroup_shuffle,
  no_cooperative_matrix,
  cap_subgroup,       ///< subgroups of at most `value` invocations
  assume_binding,     ///< a binding may hold `value` bytes although the driver reports fewer
  cap_allocation,     ///< one allocation of at most `value` bytes
  cap_submit,         ///< at most `value` dispatches in one submission
  whole_dispatches,   ///< none begins at another workgroup than the first
  align_fills,        ///< fills of 4 KiB or more begin at multiples of 16 bytes
  no_pipeline_cache,  ///< no cache object, no file
};
std::string_view quirk_action_name(QuirkAction action);

/// A row of the table. Every field that is set must match; zero and empty match anything.
struct Quirk {
  std::string_view name;
  std::uint32_t vendor = 0;
  std::string_view device;         ///< part of the device's name, any case
  std::uint32_t first_device = 0;  ///< range of device ids, both included
  std::uint32_t last_device = 0;
  std::string_view driver;           ///< part of the driver's name or its information, any case
  std::uint32_t first_version = 0;   ///< driver versions from this on, as the driver packs them ...
  std::uint32_t before_version = 0;  ///< ... and before this
  QuirkAction action{};
  std::uint64_t value = 0;
  std::string_view reason;
  std::string_view link;  ///< the public report
};

std::span<const Quirk> known_quirks();

bool matches(const Quirk& quirk, const Caps& caps);

/// Applies every matching row in order, and lists in quirks.applied those that changed something.
void apply_quirks(Caps& caps, Quirks& quirks);

/// Google's software Vulkan device. This is no quirk: its compiler prefers kernels of another shape.
bool is_swiftshader(const Caps& caps);
/// A GPU of NVIDIA's, whichever driver it has.
bool is_nvidia(const Caps& caps);

/// Whether kernels read buffers faster as texels: llvmpipe of Mesa 22.3, where a buffer of texels may be as large as
/// any binding.
bool reads_texels(const Caps& caps);

/// How many invocations a software device runs side by side, whatever subgroup size its capabilities claim. 0 if its
/// name does not tell.
std::uint32_t lanes_side_by_side(const Caps& caps);

}  // namespace graft::gpu
