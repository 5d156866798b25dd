#include "platform/gpu/quirks.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "platform/base/text.h"

namespace graft::gpu {
namespace {

constexpr std::uint32_t kAmd = 0x1002, kArm = 0x13b5, kImagination = 0x1010, kIntel = 0x8086, kNvidia = 0x10de,
                        kQualcomm = 0x5143;

/// As Vulkan, Mesa and Qualcomm pack versions; NVIDIA and Intel's Windows driver have their own ways.
constexpr std::uint32_t version(std::uint32_t major, std::uint32_t minor, std::uint32_t patch = 0) {
  return major << 22 | minor << 12 | patch;
}
constexpr std::uint32_t nvidia_version(std::uint32_t major, std::uint32_t minor) { return major << 22 | minor << 14; }
constexpr std::uint32_t intel_version(std::uint32_t third, std::uint32_t build) { return third << 14 | build; }

constexpr Quirk kQuirks[] = {
    // Qualcomm
    {.name = "adreno-long-submits",
     .vendor = kQualcomm,
     .driver = "Qualcomm",
     .action = QuirkAction::cap_submit,
     .value = 32,
     .reason = "The device is lost when one submission holds many large products; shorter submissions pass.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/8743"},
    {.name = "adreno-630-pipeline-cache",
     .vendor = kQualcomm,
     .first_device = 0x06030000,
     .last_device = 0x060300ff,
     .driver = "Qualcomm",
     .action = QuirkAction::no_pipeline_cache,
     .reason = "Drivers of the Snapdragon 845 were seen to crash on pipeline caches that they wrote themselves.",
     .link = "https://github.com/flutter/flutter/issues/172624"},
    {.name = "adreno-506-baseline",
     .vendor = kQualcomm,
     .first_device = 0x05000600,
     .last_device = 0x050006ff,
     .action = QuirkAction::baseline_only,
     .reason = "This GPU's Vulkan drivers have enough faults that Flutter does not use them.",
     .link = "https://github.com/flutter/flutter/issues/157823"},
    // Arm
    {.name = "mali-g720-products",
     .vendor = kArm,
     .device = "Mali-G720-Immortalis",
     .action = QuirkAction::baseline_only,
     .reason = "Matrix products of every type were wrong by an error that grows with the length of the sums.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/23133"},
    // Imagination
    {.name = "powervr-batched-dispatches",
     .vendor = kImagination,
     .action = QuirkAction::cap_submit,
     .value = 1,
     .reason =
         "Copies and dispatches recorded into one command buffer read zeros; submitted one by one they are right.",
     .link = "https://github.com/pytorch/executorch/pull/17468"},
    {.name = "powervr-subgroup-reductions",
     .vendor = kImagination,
     .action = QuirkAction::no_subgroup_arithmetic,
     .reason = "The shader compiler fails on reductions made of subgroup operations alone.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/28341"},
    {.name = "powervr-c-series-wrong",
     .vendor = kImagination,
     .device = "C-Series",
     .action = QuirkAction::baseline_only,
     .reason = "Language models give wrong numbers without any error, and the GPU's firmware was seen to crash.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/28214"},
    // MoltenVK
    {.name = "moltenvk-no-binding-limit",
     .driver = "MoltenVK",
     .action = QuirkAction::assume_binding,
     .value = 128ull << 20,
     .reason = "Early versions report a largest storage buffer binding of 0 on Apple's GPUs; Vulkan promises 128 MiB.",
     .link = "https://github.com/KhronosGroup/MoltenVK/issues/1245"},
    {.name = "moltenvk-amd-arithmetic",
     .vendor = kAmd,
     .driver = "MoltenVK",
     .action = QuirkAction::no_subgroup_arithmetic,
     .reason = "Subgroup sums are wrong on AMD GPUs under Metal.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/15886"},
    {.name = "moltenvk-amd-shuffle",
     .vendor = kAmd,
     .driver = "MoltenVK",
     .action = QuirkAction::no_subgroup_shuffle,
     .reason = "Shuffles across 32 lanes or more are wrong although subgroups of 64 are reported.",
     .link = "https://github.com/KhronosGroup/MoltenVK/issues/2750"},
    {.name = "moltenvk-amd-size",
     .vendor = kAmd,
     .driver = "MoltenVK",
     .action = QuirkAction::cap_subgroup,
     .value = 32,
     .reason = "Metal runs 32 lanes where 64 are reported.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/20029"},
    {.name = "moltenvk-intel-arithmetic",
     .vendor = kIntel,
     .driver = "MoltenVK",
     .action = QuirkAction::no_subgroup_arithmetic,
     .reason = "Subgroup reductions are wrong on Intel's ninth generation under Metal.",
     .link = "https://github.com/KhronosGroup/MoltenVK/issues/2757"},
    // Intel
    {.name = "intel-partial-subgroups",
     .vendor = kIntel,
     .action = QuirkAction::no_subgroup_arithmetic,
     .reason = "Size and live lanes of subgroups vary unless a kernel asks for full ones; such operations crashed.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/17356"},
    {.name = "intel-partial-subgroups",
     .vendor = kIntel,
     .action = QuirkAction::no_subgroup_shuffle,
     .reason = "Size and live lanes of subgroups vary unless a kernel asks for full ones; such operations crashed.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/17356"},
    {.name = "anv-slow-matrices",
     .vendor = kIntel,
     .driver = "Mesa",
     .before_version = version(24, 3, 0),
     .action = QuirkAction::no_cooperative_matrix,
     .reason = "Older Mesa emulates cooperative matrices on the ordinary units, slower than products without them.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/10721"},
    {.name = "intel-alchemist-matrices",
     .vendor = kIntel,
     .device = "DG2",
     .action = QuirkAction::no_cooperative_matrix,
     .reason = "Nobody, Intel's engineers included, got the matrix units of this generation to pay through Vulkan.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/12690"},
    {.name = "intel-windows-matrices",
     .vendor = kIntel,
     .driver = "Intel Corporation",
     .first_version = intel_version(100, 0),
     .before_version = intel_version(101, 8860),
     .action = QuirkAction::no_cooperative_matrix,
     .reason = "Cooperative matrices lost the device before driver 32.0.101.8860.",
     .link = "https://github.com/ggml-org/llama.cpp/issues/22034"},
    // NVIDIA
    {.name = "nvidia-unaligned-fills",
     .vendor = kNvidia,
     .action = QuirkAction::align_fills,
     .reason = "vkCmdFillBuffer of 4 KiB or more from an offset that is no multiple of 16 bytes writes before it.",
     .link = "https://github.com/gfx-rs/wgpu/issues/4122"},
    {.name = "nvidia-dispatch-base",
     .vendor = kNvidia,
     .action = QuirkAction::whole_dispatches,
     .reason = "Workgroups of vkCmdDispatchBase are numbered from 0, whatever its base (driver 580.159.04, H100).",
     .link = "https://registry.khronos.org/vulkan/specs/latest/man/html/vkCmdDispatchBase.html"},
    {.name = "nvidia-495-pipeline-cache",
     .vendor = kNvidia,
     .first_version = nvidia_version(495, 0),
     .before_version = nvidia_version(496, 0),
     .action = QuirkAction::no_pipeline_cache,
     .reason = "Creating a pipeline cache crashed at random.",
     .link = "https://github.com/Kode/Kore/pull/662"},
    // AMD
    {.name = "amd-windows-apu-matrices",
     .vendor = kAmd,
     .device = "M Graphics",
     .driver = "AMD proprietary",
     .action = QuirkAction::no_cooperative_matrix,
     .reason = "Asking integrated GPUs of the Windows driver for their matrix sizes crashes the process.",
     .link = "https://github.com/ggml-org/llama.cpp/pull/22750"},
    // Mesa
    {.name = "llvmpipe-large-buffers",
     .driver = "llvmpipe",
     .action = QuirkAction::cap_allocation,
     .value = 0x7fff0000,
     .reason = "Sizes of buffers pass through 32-bit signed integers inside Mesa.",
     .link = "https://github.com/gfx-rs/wgpu/pull/2796"},
};

bool holds(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

void keep_to_baseline(Caps& caps) {
  caps.subgroup_arithmetic = caps.subgroup_shuffle = false;
  caps.shader_float16 = caps.shader_int8 = caps.shader_int64 = false;
  caps.storage_16bit = caps.storage_8bit = caps.integer_dot = caps.cooperative_matrix = false;
}

/// Whether it changed anything.
bool apply(const Quirk& quirk, Caps& caps, Quirks& quirks) {
  const auto off = [](bool& feature) { return std::exchange(feature, false); };
  const auto at_most = [&](auto& limit) {
    if (limit != 0 && limit <= quirk.value) return false;
    limit = static_cast<std::remove_reference_t<decltype(limit)>>(quirk.value);
    return true;
  };
  switch (quirk.action) {
    case QuirkAction::baseline_only: keep_to_baseline(caps); return true;
    case QuirkAction::no_subgroup_arithmetic: return off(caps.subgroup_arithmetic);
    case QuirkAction::no_subgroup_shuffle: return off(caps.subgroup_shuffle);
    case QuirkAction::no_cooperative_matrix: return off(caps.cooperative_matrix);
    case QuirkAction::cap_subgroup: return at_most(caps.subgroup_size);
    case QuirkAction::cap_allocation: return at_most(caps.max_allocation);
    case QuirkAction::cap_submit: return at_most(quirks.max_submit_dispatches);
    case QuirkAction::no_pipeline_cache: return off(quirks.pipeline_cache);
    case QuirkAction::whole_dispatches: return !std::exchange(quirks.whole_dispatches, true);
    case QuirkAction::align_fills: return !std::exchange(quirks.align_fills, true);
    case QuirkAction::assume_binding:
      if (caps.max_storage_buffer_range >= quirk.value) return false;
      caps.max_storage_buffer_range = quirk.value;
      return true;
  }
  return false;
}

}  // namespace

std::string_view quirk_action_name(QuirkAction action) {
  static constexpr std::string_view kNames[] = {
      "baseline only",     "no subgroup arithmetic", "no subgroup shuffles", "no cooperative matrices",
      "smaller subgroups", "usual bindings",         "smaller allocations",  "shorter submissions",
      "whole dispatches",  "aligned fills",          "no pipeline cache"};
  return kNames[static_cast<std::size_t>(action)];
}

std::span<const Quirk> known_quirks() { return kQuirks; }

bool matches(const Quirk& quirk, const Caps& caps) {
  if (quirk.vendor != 0 && quirk.vendor != caps.vendor_id) return false;
  if (!quirk.device.empty() && !holds(caps.device_name, quirk.device)) return false;
  if (quirk.last_device != 0 && (caps.device_id < quirk.first_device || caps.device_id > quirk.last_device))
    return false;
  if (!quirk.driver.empty() && !holds(caps.driver_name, quirk.driver) && !holds(caps.driver_info, quirk.driver)) {
    return false;
  }
  if (caps.driver_version < quirk.first_version) return false;
  return quirk.before_version == 0 || caps.driver_version < quirk.before_version;
}

void apply_quirks(Caps& caps, Quirks& quirks) {
  for (const Quirk& quirk : kQuirks) {
    if (!matches(quirk, caps) || !apply(quirk, caps, quirks)) continue;
    quirks.applied.push_back({std::string(quirk.name), std::string(quirk_action_name(quirk.action)),
                              std::string(quirk.reason), std::string(quirk.link)});
  }
}

bool is_swiftshader(const Caps& caps) { return caps.type == DeviceType::cpu && caps.vendor_id == 0x1ae0; }

bool is_nvidia(const Caps& caps) { return caps.type == DeviceType::discrete && caps.vendor_id == kNvidia; }

bool reads_texels(const Caps& caps) {
  // "Mesa 22.3.6 (LLVM 15.0.6)", Debian 12's. 26.2 was seen to read storage buffers as fast, and texels more slowly.
  return caps.type == DeviceType::cpu && caps.device_name.starts_with("llvmpipe") &&
         caps.driver_info.starts_with("Mesa 22.3.") &&
         caps.max_texel_buffer_elements >= caps.max_storage_buffer_range / 4;
}

std::uint32_t lanes_side_by_side(const Caps& caps) {
  // "llvmpipe (LLVM 15.0.6, 256 bits)": of vectors, with 32 for each invocation.
  if (caps.type != DeviceType::cpu) return 0;
  for (const std::uint32_t bits : {128u, 256u, 512u}) {
    if (caps.device_name.starts_with("llvmpipe") && caps.device_name.ends_with(cat(", ", bits, " bits)"))) {
      return bits / 32;
    }
  }
  return 0;
}

}  // namespace graft::gpu
