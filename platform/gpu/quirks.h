// Known faults of Vulkan drivers that matter to compute: one table, laid over what a driver says of itself when its
// device is opened. What the table does not know, the self-test finds out on the device.
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
  assume_binding,     ///< a binding may hold `value` bytes where the driver says less
  cap_allocation,     ///< one allocation of at most `value` bytes
  cap_submit,         ///< at most `value` dispatches in one submission
  align_fills,        ///< fills of 4 KiB or more begin at multiples of 16 bytes
  no_pipeline_cache,  ///< no cache object, no file
};
std::string_view quirk_action_name(QuirkAction action);

/// A row. Everything that is set must match; zero and empty match all.
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
  std::string_view link;  ///< where this was found out, in public
};

std::span<const Quirk> known_quirks();

bool matches(const Quirk& quirk, const Caps& caps);

/// Applies every row that matches, in order, and lists it in quirks.applied. A row that changes nothing is left out.
void apply_quirks(Caps& caps, Quirks& quirks);

/// Google's Vulkan device in software. Not a quirk: kernels of another shape suit its compiler.
bool is_swiftshader(const Caps& caps);

/// How many invocations a software device runs side by side, whatever its capabilities were made to say of subgroups;
/// 0 where its name does not tell.
std::uint32_t lanes_side_by_side(const Caps& caps);

}  // namespace graft::gpu
