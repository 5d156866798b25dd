// How fast GPUs are, by what is publicly known of them: for estimates before anything runs. Nothing here was measured
// by graft; what a device at hand reaches is what `graft bench device` measures.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/target.h"

namespace graft::gpu {

/// One GPU, as a page describes it. A unit is what runs a workgroup: a compute unit (AMD), a shader processor (Adreno).
struct Figures {
  std::string_view name;     ///< as in "adreno-740"
  std::string_view summary;  ///< with the product whose clock and memory these are
  std::string_view marker;   ///< part of the names that drivers give it
  std::string_view preset;   ///< whose capabilities it has; see presets.h
  DeviceType type = DeviceType::integrated;
  std::uint64_t heap = 0;  ///< bytes of a usual such machine's largest heap
  std::uint32_t units = 0;
  std::uint32_t multiply_adds = 0;  ///< of f32, by one unit in one clock
  std::uint32_t half_rate = 1;      ///< times as many of f16
  double clock = 0;                 ///< Hz, the highest
  double memory_bytes = 0;          ///< per second
  double load_slots = 0;            ///< see Speed::load_slots
  std::string_view units_source;    ///< pages
  std::string_view clock_source;
  std::string_view memory_source;
};

std::span<const Figures> known_figures();
/// By name, or null.
const Figures* find_figures(std::string_view name);
/// Those of the device with these capabilities, by its name; null where nothing is known of it.
const Figures* figures_of(const Caps& caps);

/// Makes the target one with this GPU's capabilities: its family's preset, its name, its memory.
Status apply_figures(const Figures& figures, Target& target);

/// What an estimate of time starts from: of public figures, or of measured ones.
struct Speed {
  double f32_flops = 0;       ///< per second at most, a multiply and an add counted as two
  double f16_flops = 0;       ///< 0: as f32
  double memory_bytes = 0;    ///< per second, read and written, by kernels
  double transfer_bytes = 0;  ///< per second, read and written, by copies
  /// A GPU's units, and the multiply-adds that each begins in one clock. 0: they are not known, and whatever runs is
  /// taken to fill the device.
  std::uint32_t units = 0;
  std::uint32_t lanes = 0;
  /// What loading one number from shared memory into registers costs beside a multiply-add, with its address and the
  /// waiting for it.
  double load_slots = 1;
  double dispatch_seconds = 0;
  double barrier_seconds = 0;
  double submit_seconds = 0;
};
/// The times of dispatches, barriers and submissions are assumptions: no page says them.
Speed speed_of(const Figures& figures);

}  // namespace graft::gpu
