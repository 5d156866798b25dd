#include "platform/gpu/presets.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "platform/gpu/caps_fields.h"
#include "platform/gpu/figures.h"

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
  caps.shader_bfloat16 = false;
  no_matrices(caps);
  no_small_types(caps);
}

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint32_t kLeastBuffers = 4;  // that Vulkan guarantees per stage
constexpr std::uint64_t kAll32 = (1ull << 32) - 1;

// What a GPU can do, one bit each.
enum Can : unsigned {
  kArithmetic = 1,
  kShuffle = 2,
  kFloat16 = 4,
  kInt8 = 8,
  kInt64 = 16,
  kStore16 = 32,
  kStore8 = 64,
  kDot = 128,
  kTimeline = 256,
};
constexpr std::pair<unsigned, bool Caps::*> kFeatures[] = {
    {kArithmetic, &Caps::subgroup_arithmetic},
    {kShuffle, &Caps::subgroup_shuffle},
    {kFloat16, &Caps::shader_float16},
    {kInt8, &Caps::shader_int8},
    {kInt64, &Caps::shader_int64},
    {kStore16, &Caps::storage_16bit},
    {kStore8, &Caps::storage_8bit},
    {kDot, &Caps::integer_dot},
    {kTimeline, &Caps::timeline_semaphore},
};

struct Bindings {
  std::uint64_t range = 128 * kMiB;
  std::uint64_t allocation = kGiB;
  std::uint32_t alignment = 256;
  std::uint32_t buffers = kLeastBuffers;
  std::uint32_t push = 128;
};
struct Workgroup {
  std::uint32_t shared = 16384;
  std::uint32_t invocations = 128;
  std::array<std::uint32_t, 3> size = {128, 128, 64};
  std::array<std::uint32_t, 3> count = {65535, 65535, 65535};
};

// A real GPU under one driver, by numbers of its source. What could not be read there stays at what Vulkan 1.1
// guarantees, so that a plan may be too careful, never too bold.
struct Gpu {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::uint64_t heap;  ///< bytes, of a usual such machine
  Bindings bindings;
  Workgroup group;
  std::uint32_t subgroup = 1;
  unsigned can = 0;  ///< bits of Can
  DeviceType type = DeviceType::integrated;
};

constexpr std::array<std::uint32_t, 3> kCube1024 = {1024, 1024, 1024};
constexpr unsigned kSubgroups = kArithmetic | kShuffle;
constexpr unsigned kSmallTypes = kFloat16 | kInt8 | kStore16 | kStore8;

// Mesa's turnip, by its tu_device.cc; sizes by generation: src/freedreno/common/freedreno_devices.py beside it.
constexpr std::string_view kTurnipSource =
    "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/vulkan/tu_device.cc";
constexpr Bindings kTurnip = {.allocation = kAll32, .alignment = 4, .buffers = 1u << 24, .push = 256};
constexpr unsigned kTurnipCan = kSubgroups | kFloat16 | kInt8 | kDot | kTimeline;
constexpr Workgroup kTurnipWide = {.shared = 32768, .invocations = 2048, .size = kCube1024};

constexpr std::string_view kRadvSource =
    "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/amd/vulkan/radv_physical_device.c";
constexpr Bindings kRadv = {.range = kAll32, .allocation = kAll32 - 3, .alignment = 4, .buffers = 8388606, .push = 256};
constexpr unsigned kRadvCan = kSubgroups | kSmallTypes | kInt64 | kDot | kTimeline;
constexpr Workgroup kRadvWide = {.shared = 65536, .invocations = 1024, .size = kCube1024};

// Heaps: Mesa's drivers for chips that share the host's memory offer half of up to 4 GiB, three quarters of more.
// Where drivers of one GPU differ, the summary names the one that the numbers are of.
constexpr Gpu kGpus[] = {
    // Halves are stored from the third sub-generation (650) on only; 605 to 612 have half the shared memory and narrow
    // subgroups.
    {.name = "adreno-610",
     .summary = "Adreno 605 to 612, Mesa's turnip, 4 GiB",
     .source = kTurnipSource,
     .heap = 2 * kGiB,
     .bindings = kTurnip,
     .group = {.shared = 16384, .invocations = 1024, .size = kCube1024},
     .subgroup = 64,
     .can = kTurnipCan},
    {.name = "adreno-6xx",
     .summary = "Adreno 615 to 640, Mesa's turnip, 6 GiB",
     .source = kTurnipSource,
     .heap = 9 * kGiB / 2,
     .bindings = kTurnip,
     .group = kTurnipWide,
     .subgroup = 128,
     .can = kTurnipCan},
    {.name = "adreno-7xx",
     .summary = "Adreno 730 to 750, Mesa's turnip, 8 GiB",
     .source = kTurnipSource,
     .heap = 6 * kGiB,
     .bindings = kTurnip,
     .group = kTurnipWide,
     .subgroup = 128,
     .can = kTurnipCan | kStore16},
    // No double-width waves from this generation on.
    {.name = "adreno-8xx",
     .summary = "Adreno 810 to 840, Mesa's turnip, 12 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/common/freedreno_devices.py",
     .heap = 9 * kGiB,
     .bindings = kTurnip,
     .group = {.shared = 32768, .invocations = 1024, .size = kCube1024},
     .subgroup = 64,
     .can = kTurnipCan | kStore16 | kStore8},
    // Turnip's range of a binding is said there to be that of Qualcomm's driver. Here and below, 8 storage buffers:
    // what reports of newer Android drivers have at least (https://github.com/gpuweb/gpuweb/issues/4721).
    {.name = "adreno-android",
     .summary = "Adreno under Qualcomm's driver of Android 12, 8 GiB",
     .source = "https://vulkan.gpuinfo.org/displayreport.php?id=16312",
     .heap = 6 * kGiB,
     .bindings = {.buffers = 8},
     .group = {.shared = 32768, .invocations = 1024, .size = {1024, 1024, 64}},
     .subgroup = 64,
     .can = kSubgroups | kSmallTypes},
    // Shuffles came with Android 12 only.
    {.name = "mali-g78",
     .summary = "Mali G77 and G78 under Arm's driver of Android 11, 8 GiB",
     .source = "https://vulkan.gpuinfo.org/displayreport.php?id=10312",
     .heap = 6 * kGiB,
     .bindings = {.buffers = 8},
     .group = {.shared = 32768, .invocations = 512, .size = {512, 512, 512}},
     .subgroup = 16,
     .can = kArithmetic | kSmallTypes | kDot},
    // The driver asks the hardware for the invocations: as on the G78.
    {.name = "mali-g610",
     .summary = "Mali G310 to G710, Mesa's panvk, 8 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/panfrost/vulkan/panvk_physical_device.c",
     .heap = 6 * kGiB,
     .bindings = {.range = kAll32, .allocation = kAll32, .alignment = 4, .buffers = 64, .push = 256},
     .group = {.shared = 32768, .invocations = 512, .size = {512, 512, 512}},
     .subgroup = 16,
     .can = kSubgroups | kSmallTypes | kInt64 | kDot | kTimeline},
    // Metal recommends two thirds of the memory.
    {.name = "apple-moltenvk",
     .summary = "Apple M1 under MoltenVK 1.4, 8 GiB",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2026",
     .heap = 16 * kGiB / 3,
     .bindings = {.range = kAll32, .allocation = 4 * kGiB, .alignment = 16, .buffers = 31, .push = 4096},
     .group = {.shared = 32768, .invocations = 1024, .size = kCube1024, .count = {1u << 30, 1u << 30, 1u << 30}},
     .subgroup = 32,
     .can = kSubgroups | kSmallTypes | kInt64 | kDot | kTimeline},
    {.name = "raspberry-pi-4",
     .summary = "VideoCore VI of the Raspberry Pi 4, Mesa's v3dv, 4 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/broadcom/vulkan/v3dv_device.c",
     .heap = 2 * kGiB,
     .bindings = {.range = kGiB, .alignment = 32, .buffers = 8},
     .group = {.invocations = 256, .size = {256, 256, 256}},
     .subgroup = 16},
    {.name = "powervr-gx6250",
     .summary = "PowerVR GX6250, Mesa's pvr, 4 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/imagination/vulkan/pvr_device.c",
     .heap = 2 * kGiB,
     .bindings = {.buffers = 96},
     .group = {.invocations = 512, .size = {512, 512, 64}, .count = {65536, 65536, 65536}}},
    {.name = "intel-hd-620",
     .summary = "Intel HD Graphics 620, Mesa's anv 26.1, 8 GiB",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2026",
     .heap = 6 * kGiB,
     .bindings = {.range = kAll32, .alignment = 4, .buffers = 201326592, .push = 256},
     .group = {.shared = 49152, .invocations = 1024, .size = kCube1024, .count = {2147483647, 65535, 65535}},
     .subgroup = 32,
     .can = kStore8 | kDot | kTimeline},
    // What RADV 22.3 says of POLARIS10, VEGA10 and NAVI21 without hardware (RADV_FORCE_FAMILY).
    {.name = "radeon-gfx8",
     .summary = "Radeon RX 400 and 500, Mesa's RADV, 8 GiB",
     .source = kRadvSource,
     .heap = 8 * kGiB,
     .bindings = kRadv,
     .group = kRadvWide,
     .subgroup = 64,
     .can = kRadvCan & ~unsigned{kFloat16},
     .type = DeviceType::discrete},
    {.name = "radeon-gfx9",
     .summary = "Radeon RX Vega, RX 5000 and later, Mesa's RADV, 8 GiB",
     .source = kRadvSource,
     .heap = 8 * kGiB,
     .bindings = kRadv,
     .group = kRadvWide,
     .subgroup = 64,
     .can = kRadvCan,
     .type = DeviceType::discrete},
    // Types and operations: of this generation's report 17937 at vulkan.gpuinfo.org.
    {.name = "nvidia-gtx-1060",
     .summary = "NVIDIA GTX 1060 of 6 GiB, NVIDIA's driver 535",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2024",
     .heap = 6 * kGiB,
     .bindings = {.range = kAll32, .alignment = 16, .buffers = 1048576, .push = 256},
     .group = {.shared = 49152, .invocations = 1536, .size = {1536, 1024, 64}, .count = {2147483647, 65535, 65535}},
     .subgroup = 32,
     .can = kSubgroups | kSmallTypes | kInt64 | kDot | kTimeline,
     .type = DeviceType::discrete},
};
constexpr std::size_t kGpuCount = std::size(kGpus);

void replace_by(const Gpu& gpu, Target& target) {
  Caps& caps = target.caps;
  caps.device_name = gpu.summary;
  caps.type = gpu.type;
  caps.heaps = {{gpu.heap, true}};
  caps.max_storage_buffer_range = gpu.bindings.range;
  caps.max_allocation = gpu.bindings.allocation;
  caps.storage_buffer_alignment = gpu.bindings.alignment;
  caps.max_storage_buffers_per_stage = gpu.bindings.buffers;
  caps.max_push_constants = gpu.bindings.push;
  caps.max_shared_memory = gpu.group.shared;
  caps.max_workgroup_invocations = gpu.group.invocations;
  caps.max_workgroup_size = gpu.group.size;
  caps.max_workgroup_count = gpu.group.count;
  caps.subgroup_size = gpu.subgroup;
  caps.subgroup_basic = gpu.subgroup > 1;
  for (const auto& [bit, feature] : kFeatures) caps.*feature = (gpu.can & bit) != 0;
  caps.unified_memory = gpu.type == DeviceType::integrated;
  caps.shader_bfloat16 = false;
  no_matrices(caps);
  target.quirks.applied.clear();
  target.advice.tuned.clear();
}

template <std::size_t i>
void replace_by_gpu(Target& target) {
  replace_by(kGpus[i], target);
}

void software_matrices(Target& target) { target.hooks.software_matrices = true; }
void rounded_products(Target& target) {
  software_matrices(target);
  target.policy.matmul_precision = MatmulPrecision::medium;
}

constexpr CapsPreset kMadeUp[] = {
    {"small", "16 KiB of shared memory, 128 invocations, no 16-bit or 8-bit types",
     [](Target& target) { least(target.caps); }},
    {"plain", "the same, 4 storage buffers per stage, and no subgroup operations",
     [](Target& target) {
       least(target.caps);
       target.caps.max_storage_buffers_per_stage = kLeastBuffers;
       no_subgroups(target.caps);
     }},
    {"buffers4", "4 storage buffers per stage, as few as there may be",
     [](Target& target) { target.caps.max_storage_buffers_per_stage = kLeastBuffers; }},
    {"subgroup4", "subgroups of 4", [](Target& target) { target.caps.subgroup_size = 4; }},
    {"subgroup128", "subgroups of 128",
     [](Target& target) {
       // Kernels shuffle among the first eight lanes of a wide subgroup: a device with fewer lanes cannot show that.
       target.caps.subgroup_shuffle = target.caps.subgroup_shuffle && target.caps.subgroup_size >= 8;
       target.caps.subgroup_size = 128;
     }},
    {"matrices", "kernels for matrix units also on a CPU that says it has such", software_matrices},
    {"flexible", "the same, and f32 operands of products may be rounded for them", rounded_products},
    {"rounded", "the same without matrices of flexible sizes",
     [](Target& target) {
       rounded_products(target);
       target.caps.flexible_shapes.clear();
     }},
    {"gpu", "the choices of a discrete GPU", [](Target& target) { target.caps.type = DeviceType::discrete; }},
};
constexpr std::size_t kMadeUpCount = std::size(kMadeUp);

template <std::size_t... i>
constexpr std::array<CapsPreset, kMadeUpCount + kGpuCount> all_presets(std::index_sequence<i...>) {
  std::array<CapsPreset, kMadeUpCount + kGpuCount> all{};
  std::ranges::copy(kMadeUp, all.begin());
  ((all[kMadeUpCount + i] = {kGpus[i].name, kGpus[i].summary, replace_by_gpu<i>, kGpus[i].source}), ...);
  return all;
}
constexpr auto kPresets = all_presets(std::make_index_sequence<kGpuCount>());

std::array<std::uint32_t, 3> lesser(std::array<std::uint32_t, 3> a, const std::array<std::uint32_t, 3>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::min(a[i], b[i]);
  return a;
}
template <class T>
T lesser(const T& a, const T& b) {
  return std::min(a, b);
}

}  // namespace

std::span<const CapsPreset> caps_presets() { return kPresets; }

Status apply_caps_preset(std::string_view name, Target& target) {
  std::string names;
  for (const CapsPreset& preset : kPresets) {
    if (preset.name == name) {
      preset.apply(target);
      return ok_status();
    }
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  if (const Figures* const figures = find_figures(name)) return apply_figures(*figures, target);
  for (const Figures& figures : known_figures()) names += ", " + std::string(figures.name);
  return invalid("There are no capabilities \"", name, "\"; there are: ", names, ".");
}

Caps within_device(Caps wanted, Caps device) {
  each_limit(
      [](std::string_view name, auto& limit, const auto& own) {
        if (name == "subgroup_size") return;
        limit = name == "storage_buffer_alignment" ? std::max(limit, own) : lesser(limit, own);
      },
      wanted, device);
  each_feature([](std::string_view, bool& feature, bool own) { feature = feature && own; }, wanted, device);
  // Matrices are the device's, or none.
  if (!wanted.cooperative_matrix) no_matrices(device);
  if (wanted.flexible_shapes.empty()) device.flexible_shapes.clear();
  each_of_matrices([](std::string_view, auto& of_wanted, const auto& own) { of_wanted = own; }, wanted, device);
  return wanted;
}

}  // namespace graft::gpu
