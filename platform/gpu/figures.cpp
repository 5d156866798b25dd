#include "platform/gpu/figures.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "platform/gpu/presets.h"

namespace graft::gpu {
namespace {

constexpr double kMHz = 1e6;
constexpr double kGB = 1e9;
constexpr std::uint64_t kHeapGiB = 1ull << 30;

// Numbers of shader processors are num_ccu there; 256 multiply-adds each are 1.8 TFLOPS of the 740 at 600 MHz, and what
// was measured on the 640 by threes.
constexpr std::string_view kMesaAdreno =
    "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/common/freedreno_devices.py, "
    "https://github.com/azhirnov/cpu-gpu-arch/blob/main/gpu/Adreno-700.md";
constexpr std::string_view kSnapdragons = "https://en.wikipedia.org/wiki/List_of_Qualcomm_Snapdragon_systems_on_chips";
constexpr std::string_view kAdreno730 =
    "https://chipsandcheese.com/2024/03/05/inside-snapdragon-8-gen-1s-igpu-adreno-gets-big";
constexpr std::string_view kRadeon6800 = "https://en.wikipedia.org/wiki/Radeon_RX_6000_series";
constexpr std::string_view kRadeon890M =
    "https://chipsandcheese.com/2024/08/24/amds-radeon-890m-strix-points-bigger-igpu";
constexpr std::string_view kRadeon9070 = "https://en.wikipedia.org/wiki/Radeon_RX_9000_series";
constexpr std::string_view kVega = "https://en.wikipedia.org/wiki/Radeon_RX_Vega_series";
constexpr std::string_view kRadeon480 = "https://en.wikipedia.org/wiki/Radeon_400_series";

// The inner loop of the product in shared memory as the compilers make it: docs/performance.md. Of its instructions
// beside the 256 multiply-adds, 268 on Adreno 740 and 172 on gfx1150, a 160th each: 16 steps of eight numbers loaded
// and one staged, which counts twice.
constexpr double kAdrenoLoads = 268.0 / 160;
constexpr double kRadeonLoads = 172.0 / 160;

constexpr Figures kFigures[] = {
    {"adreno-630", "Adreno 630 (Snapdragon 845)", "Adreno (TM) 630", "adreno-6xx", DeviceType::integrated,
     9 * kHeapGiB / 2, 2, 256, 2, 710 * kMHz, 29.9 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragons, kSnapdragons},
    {"adreno-660", "Adreno 660 (Snapdragon 888)", "Adreno (TM) 660", "adreno-6xx", DeviceType::integrated, 6 * kHeapGiB,
     3, 256, 2, 840 * kMHz, 51.2 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragons, kSnapdragons},
    {"adreno-730", "Adreno 730 (Snapdragon 8+ Gen 1)", "Adreno (TM) 730", "adreno-7xx", DeviceType::integrated,
     6 * kHeapGiB, 4, 256, 2, 900 * kMHz, 51.2 * kGB, kAdrenoLoads, kMesaAdreno, kAdreno730, kSnapdragons},
    {"adreno-740", "Adreno 740 (Snapdragon 8 Gen 2)", "Adreno (TM) 740", "adreno-7xx", DeviceType::integrated,
     6 * kHeapGiB, 6, 256, 2, 680 * kMHz, 67.2 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragons, kSnapdragons},
    {"adreno-750", "Adreno 750 (Snapdragon 8 Gen 3)", "Adreno (TM) 750", "adreno-7xx", DeviceType::integrated,
     9 * kHeapGiB, 6, 256, 2, 903 * kMHz, 76.8 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragons, kSnapdragons},
    {"polaris10", "Radeon RX 480 (Polaris 10)", "POLARIS10", "radeon-gfx8", DeviceType::discrete, 8 * kHeapGiB, 36, 64,
     1, 1266 * kMHz, 256 * kGB, kRadeonLoads, kRadeon480, kRadeon480, kRadeon480},
    {"vega10", "Radeon RX Vega 64 (Vega 10)", "VEGA10", "radeon-gfx9", DeviceType::discrete, 8 * kHeapGiB, 64, 64, 2,
     1546 * kMHz, 483.8 * kGB, kRadeonLoads, kVega, kVega, kVega},
    {"navi21", "Radeon RX 6800 XT (Navi 21)", "NAVI21", "radeon-gfx9", DeviceType::discrete, 16 * kHeapGiB, 72, 64, 2,
     2250 * kMHz, 512 * kGB, kRadeonLoads, kRadeon6800, kRadeon6800, kRadeon6800},
    // Two multiply-adds in one instruction are not counted: the compiler pairs none in graft's kernels.
    {"gfx1150", "Radeon 890M (Strix Point)", "GFX1150", "radeon-gfx9", DeviceType::integrated, 8 * kHeapGiB, 16, 64, 2,
     2900 * kMHz, 120 * kGB, kRadeonLoads, kRadeon890M,
     "https://fpsbench.com/compare/gpu/amd-radeon-rx-6800m-vs-amd-radeon-890m", kRadeon890M},
    {"gfx1201", "Radeon RX 9070 XT (Navi 48)", "GFX1201", "radeon-gfx9", DeviceType::discrete, 16 * kHeapGiB, 64, 64, 2,
     2970 * kMHz, 640 * kGB, kRadeonLoads, kRadeon9070, kRadeon9070, kRadeon9070},
};

// Assumed. Phones take longer over everything that is not arithmetic.
struct Handing {
  double dispatch, barrier, submit;
};
constexpr Handing kPhone = {10e-6, 10e-6, 200e-6};
constexpr Handing kDesktop = {3e-6, 3e-6, 50e-6};

}  // namespace

std::span<const Figures> known_figures() { return kFigures; }

const Figures* find_figures(std::string_view name) {
  const auto* const found = std::ranges::find(kFigures, name, &Figures::name);
  return found == std::end(kFigures) ? nullptr : found;
}

const Figures* figures_of(const Caps& caps) {
  const std::string_view device = caps.device_name;
  const auto* const found = std::ranges::find_if(
      kFigures, [&](const Figures& f) { return device.find(f.marker) != device.npos || device == f.summary; });
  return found == std::end(kFigures) ? nullptr : found;
}

Status apply_figures(const Figures& figures, Target& target) {
  GRAFT_TRY(apply_caps_preset(figures.preset, target));
  target.caps.device_name = figures.summary;
  target.caps.type = figures.type;
  target.caps.heaps = {{figures.heap, true}};
  target.caps.unified_memory = figures.type == DeviceType::integrated;
  return ok_status();
}

Speed speed_of(const Figures& figures) {
  const Handing& handing = figures.preset.starts_with("adreno") ? kPhone : kDesktop;
  Speed speed;
  speed.f32_flops = 2.0 * figures.units * figures.multiply_adds * figures.clock;
  speed.f16_flops = speed.f32_flops * figures.half_rate;
  speed.memory_bytes = speed.transfer_bytes = figures.memory_bytes;
  speed.units = figures.units;
  speed.lanes = figures.multiply_adds;
  speed.load_slots = figures.load_slots;
  speed.dispatch_seconds = handing.dispatch;
  speed.barrier_seconds = handing.barrier;
  speed.submit_seconds = handing.submit;
  return speed;
}

}  // namespace graft::gpu
