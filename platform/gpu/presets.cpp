#include "platform/gpu/presets.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "platform/gpu/caps_fields.h"

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

constexpr std::uint64_t kGiB = 1ull << 30;
constexpr std::uint64_t kAll32 = (1ull << 32) - 1;

// A real GPU under one driver, by numbers of its source. What could not be read there stays at what Vulkan 1.1
// guarantees, so that a plan may be too careful, never too bold.
struct Gpu {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  DeviceType type = DeviceType::integrated;
  std::uint64_t heap;  ///< bytes, of a usual such machine
  std::uint64_t range = 128ull << 20;
  std::uint64_t allocation = kGiB;
  std::uint32_t alignment = 256;
  std::uint32_t buffers = 4;
  std::uint32_t push = 128;
  std::uint32_t shared = 16384;
  std::uint32_t invocations = 128;
  std::array<std::uint32_t, 3> size = {128, 128, 64};
  std::array<std::uint32_t, 3> count = {65535, 65535, 65535};
  std::uint32_t subgroup = 1;
  bool arithmetic = false;
  bool shuffle = false;
  bool float16 = false;
  bool int8 = false;
  bool int64 = false;
  bool storage16 = false;
  bool storage8 = false;
  bool dot = false;
  bool timeline = false;
};

// Heaps: Mesa's drivers for chips that share the host's memory offer half of up to 4 GiB, three quarters of more.
// Where drivers of one GPU differ, the summary names the one that the numbers are of.
constexpr Gpu kGpus[] = {
    // Sizes by generation: src/freedreno/common/freedreno_devices.py beside it. Halves are stored from the third
    // sub-generation (650) on only; 605 to 612 have half the shared memory and narrow subgroups.
    {.name = "adreno-610",
     .summary = "Adreno 605 to 612, Mesa's turnip, 4 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/vulkan/tu_device.cc",
     .heap = 2 * kGiB,
     .allocation = kAll32,
     .alignment = 4,
     .buffers = 1u << 24,
     .push = 256,
     .shared = 16384,
     .invocations = 1024,
     .size = {1024, 1024, 1024},
     .subgroup = 64,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .dot = true,
     .timeline = true},
    {.name = "adreno-6xx",
     .summary = "Adreno 615 to 640, Mesa's turnip, 6 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/vulkan/tu_device.cc",
     .heap = 9 * kGiB / 2,
     .allocation = kAll32,
     .alignment = 4,
     .buffers = 1u << 24,
     .push = 256,
     .shared = 32768,
     .invocations = 2048,
     .size = {1024, 1024, 1024},
     .subgroup = 128,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .dot = true,
     .timeline = true},
    {.name = "adreno-7xx",
     .summary = "Adreno 730 to 750, Mesa's turnip, 8 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/vulkan/tu_device.cc",
     .heap = 6 * kGiB,
     .allocation = kAll32,
     .alignment = 4,
     .buffers = 1u << 24,
     .push = 256,
     .shared = 32768,
     .invocations = 2048,
     .size = {1024, 1024, 1024},
     .subgroup = 128,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .storage16 = true,
     .dot = true,
     .timeline = true},
    // No double-width waves from this generation on.
    {.name = "adreno-8xx",
     .summary = "Adreno 810 to 840, Mesa's turnip, 12 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/common/freedreno_devices.py",
     .heap = 9 * kGiB,
     .allocation = kAll32,
     .alignment = 4,
     .buffers = 1u << 24,
     .push = 256,
     .shared = 32768,
     .invocations = 1024,
     .size = {1024, 1024, 1024},
     .subgroup = 64,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .storage16 = true,
     .storage8 = true,
     .dot = true,
     .timeline = true},
    // Turnip's range of a binding is said there to be that of Qualcomm's driver. Here and below, 8 storage buffers:
    // what
    // reports of newer Android drivers have at least (https://github.com/gpuweb/gpuweb/issues/4721).
    {.name = "adreno-android",
     .summary = "Adreno under Qualcomm's driver of Android 12, 8 GiB",
     .source = "https://vulkan.gpuinfo.org/displayreport.php?id=16312",
     .heap = 6 * kGiB,
     .buffers = 8,
     .shared = 32768,
     .invocations = 1024,
     .size = {1024, 1024, 64},
     .subgroup = 64,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .storage16 = true,
     .storage8 = true},
    // Shuffles came with Android 12 only.
    {.name = "mali-g78",
     .summary = "Mali G77 and G78 under Arm's driver of Android 11, 8 GiB",
     .source = "https://vulkan.gpuinfo.org/displayreport.php?id=10312",
     .heap = 6 * kGiB,
     .buffers = 8,
     .shared = 32768,
     .invocations = 512,
     .size = {512, 512, 512},
     .subgroup = 16,
     .arithmetic = true,
     .float16 = true,
     .int8 = true,
     .storage16 = true,
     .storage8 = true,
     .dot = true},
    // The driver asks the hardware for the invocations: as on the G78.
    {.name = "mali-g610",
     .summary = "Mali G310 to G710, Mesa's panvk, 8 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/panfrost/vulkan/panvk_physical_device.c",
     .heap = 6 * kGiB,
     .range = kAll32,
     .allocation = kAll32,
     .alignment = 4,
     .buffers = 64,
     .push = 256,
     .shared = 32768,
     .invocations = 512,
     .size = {512, 512, 512},
     .subgroup = 16,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .int64 = true,
     .storage16 = true,
     .storage8 = true,
     .dot = true,
     .timeline = true},
    // Metal recommends two thirds of the memory.
    {.name = "apple-moltenvk",
     .summary = "Apple M1 under MoltenVK 1.4, 8 GiB",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2026",
     .heap = 16 * kGiB / 3,
     .range = kAll32,
     .allocation = 4 * kGiB,
     .alignment = 16,
     .buffers = 31,
     .push = 4096,
     .shared = 32768,
     .invocations = 1024,
     .size = {1024, 1024, 1024},
     .count = {1u << 30, 1u << 30, 1u << 30},
     .subgroup = 32,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .int64 = true,
     .storage16 = true,
     .storage8 = true,
     .dot = true,
     .timeline = true},
    {.name = "raspberry-pi-4",
     .summary = "VideoCore VI of the Raspberry Pi 4, Mesa's v3dv, 4 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/broadcom/vulkan/v3dv_device.c",
     .heap = 2 * kGiB,
     .range = kGiB,
     .alignment = 32,
     .buffers = 8,
     .invocations = 256,
     .size = {256, 256, 256},
     .subgroup = 16},
    {.name = "powervr-gx6250",
     .summary = "PowerVR GX6250, Mesa's pvr, 4 GiB",
     .source = "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/imagination/vulkan/pvr_device.c",
     .heap = 2 * kGiB,
     .buffers = 96,
     .invocations = 512,
     .size = {512, 512, 64},
     .count = {65536, 65536, 65536}},
    {.name = "intel-hd-620",
     .summary = "Intel HD Graphics 620, Mesa's anv 26.1, 8 GiB",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2026",
     .heap = 6 * kGiB,
     .range = kAll32,
     .alignment = 4,
     .buffers = 201326592,
     .push = 256,
     .shared = 49152,
     .invocations = 1024,
     .size = {1024, 1024, 1024},
     .count = {2147483647, 65535, 65535},
     .subgroup = 32,
     .storage8 = true,
     .dot = true,
     .timeline = true},
    // Types and operations: of this generation's report 17937 at vulkan.gpuinfo.org.
    {.name = "nvidia-gtx-1060",
     .summary = "NVIDIA GTX 1060 of 6 GiB, NVIDIA's driver 535",
     .source =
         "https://github.com/KhronosGroup/Vulkan-Profiles/tree/main/profiles/LunarG/VP_LUNARG_desktop_baseline_2024",
     .type = DeviceType::discrete,
     .heap = 6 * kGiB,
     .range = kAll32,
     .alignment = 16,
     .buffers = 1048576,
     .push = 256,
     .shared = 49152,
     .invocations = 1536,
     .size = {1536, 1024, 64},
     .count = {2147483647, 65535, 65535},
     .subgroup = 32,
     .arithmetic = true,
     .shuffle = true,
     .float16 = true,
     .int8 = true,
     .int64 = true,
     .storage16 = true,
     .storage8 = true,
     .dot = true,
     .timeline = true},
};
constexpr std::size_t kGpuCount = std::size(kGpus);

void replace_by(const Gpu& gpu, Caps& caps) {
  caps.device_name = gpu.summary;
  caps.type = gpu.type;
  caps.heaps = {{gpu.heap, true}};
  caps.max_storage_buffer_range = gpu.range;
  caps.max_allocation = gpu.allocation;
  caps.storage_buffer_alignment = gpu.alignment;
  caps.max_storage_buffers_per_stage = gpu.buffers;
  caps.max_push_constants = gpu.push;
  caps.max_shared_memory = gpu.shared;
  caps.max_workgroup_invocations = gpu.invocations;
  caps.max_workgroup_size = gpu.size;
  caps.max_workgroup_count = gpu.count;
  caps.subgroup_size = gpu.subgroup;
  caps.subgroup_basic = gpu.subgroup > 1;
  caps.subgroup_arithmetic = gpu.arithmetic;
  caps.subgroup_shuffle = gpu.shuffle;
  caps.shader_float16 = gpu.float16;
  caps.shader_int8 = gpu.int8;
  caps.shader_int64 = gpu.int64;
  caps.storage_16bit = gpu.storage16;
  caps.storage_8bit = gpu.storage8;
  caps.integer_dot = gpu.dot;
  caps.timeline_semaphore = gpu.timeline;
  caps.unified_memory = gpu.type == DeviceType::integrated;
  caps.shader_bfloat16 = false;
  no_matrices(caps);
  caps.quirks.clear();
  caps.advice.tuned.clear();
}

template <std::size_t i>
void replace_by_gpu(Caps& caps) {
  replace_by(kGpus[i], caps);
}

void software_matrices(Caps& caps) { caps.software_matrices = true; }
void rounded_products(Caps& caps) {
  software_matrices(caps);
  caps.matmul_precision = MatmulPrecision::medium;
}

constexpr CapsPreset kMadeUp[] = {
    {"small", "16 KiB of shared memory, 128 invocations, no 16-bit or 8-bit types", least},
    {"plain", "the same, and no subgroup operations",
     [](Caps& caps) {
       least(caps);
       no_subgroups(caps);
     }},
    {"subgroup4", "subgroups of 4", [](Caps& caps) { caps.subgroup_size = 4; }},
    {"subgroup128", "subgroups of 128", [](Caps& caps) { caps.subgroup_size = 128; }},
    {"matrices", "kernels for matrix units also on a CPU that says it has such", software_matrices},
    {"flexible", "the same, and f32 operands of products may be rounded for them", rounded_products},
    {"rounded", "the same without matrices of flexible sizes",
     [](Caps& caps) {
       rounded_products(caps);
       caps.flexible_shapes.clear();
     }},
    {"gpu", "the choices of a discrete GPU", [](Caps& caps) { caps.type = DeviceType::discrete; }},
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

Caps within_device(Caps wanted, Caps device) {
  each_limit(wanted, [&](std::string_view name, auto& limit) {
    each_limit(device, [&](std::string_view other, auto& own) {
      if constexpr (std::is_same_v<decltype(limit), decltype(own)>) {
        if (name != other || name == "subgroup_size") return;
        limit = name == "storage_buffer_alignment" ? std::max(limit, own) : lesser(limit, own);
      }
    });
  });
  each_feature(wanted, [&](std::string_view name, bool& feature) {
    each_feature(device, [&](std::string_view other, bool own) {
      if (name == other) feature = feature && own;
    });
  });
  // Matrices are the device's, or none.
  if (!wanted.cooperative_matrix) no_matrices(device);
  if (wanted.flexible_shapes.empty()) device.flexible_shapes.clear();
  wanted.matrix_shapes = device.matrix_shapes;
  wanted.matrix_subgroup = device.matrix_subgroup;
  wanted.flexible_shapes = device.flexible_shapes;
  wanted.max_flexible_side = device.max_flexible_side;
  return wanted;
}

}  // namespace graft::gpu
