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

// Numbers of shader processors are num_ccu there; 256 multiply-adds each are the 727 GFLOPS that are said of the 630,
// the 1.8 TFLOPS of the 740 at 600 MHz and the 3.07 of the 750 at 1 GHz.
constexpr std::string_view kMesaAdreno =
    "https://gitlab.freedesktop.org/mesa/mesa/-/blob/main/src/freedreno/common/freedreno_devices.py";
constexpr std::string_view kSnapdragon845 =
    "https://en.wikichip.org/w/index.php?title=qualcomm/snapdragon_800/845&oldid=100156";
constexpr std::string_view kSnapdragon888 =
    "https://nanoreview.net/en/soc-compare/qualcomm-snapdragon-875-vs-qualcomm-snapdragon-662";
constexpr std::string_view kSnapdragons = "https://en.wikipedia.org/wiki/List_of_Qualcomm_Snapdragon_systems_on_chips";
constexpr std::string_view kAdreno730 =
    "https://chipsandcheese.com/2024/03/05/inside-snapdragon-8-gen-1s-igpu-adreno-gets-big";
constexpr std::string_view kAdreno740 = "https://primua.com/adreno-740/";
constexpr std::string_view kAdreno750 = "https://github.com/azhirnov/cpu-gpu-arch/blob/main/gpu/Adreno-700.md";
constexpr std::string_view kRadeon480 = "https://fpsbench.com/compare/gpu/amd-radeon-rx-480-vs-nvidia-tesla-k8";
constexpr std::string_view kVega64 = "https://cputronic.com/fr/gpu/amd-radeon-rx-vega-64";
constexpr std::string_view kRadeon6800 =
    "https://hmc-tech.com/gpu/amd-radeon-rx-9070-vs-xfx-radeon-rx-6800-xt-speedster-merc-319";
constexpr std::string_view kMemory6800 = "https://pcpartdb.com/gpus/compare/amd-radeon-rx-6800--vs--amd-radeon-rx-9070";
constexpr std::string_view kRadeon890M =
    "https://chipsandcheese.com/2024/08/24/amds-radeon-890m-strix-points-bigger-igpu";
constexpr std::string_view kClock890M = "https://fpsbench.com/compare/gpu/amd-radeon-rx-6800m-vs-amd-radeon-890m";
constexpr std::string_view kRadeon9070 =
    "https://fpsbench.com/compare/gpu/amd-radeon-rx-9070-xt-vs-amd-radeon-rx-6500-xt";

// By the instructions of the product's inner loop in tiles 64x8x4x4, as the compilers make it (graft bench kernels
// --compile-only): 256 are multiply-adds, the others of 16 steps of eight numbers loaded and one staged, which counts
// twice. Where a chip's compiler was not at hand, those of its family.
constexpr double load_slots(int instructions) { return (instructions - 256) / 160.0; }
constexpr double kAdrenoLoads = load_slots(524);  // of the 740
constexpr double kRadeonLoads = load_slots(428);  // of gfx1150

constexpr Figures kFigures[] = {
    {"adreno-630", "Adreno 630 (Snapdragon 845)", "Adreno (TM) 630", "adreno-6xx", DeviceType::integrated,
     9 * kHeapGiB / 2, 2, 256, 2, 710 * kMHz, 29.9 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragon845, kSnapdragon845},
    {"adreno-660", "Adreno 660 (Snapdragon 888)", "Adreno (TM) 660", "adreno-6xx", DeviceType::integrated, 6 * kHeapGiB,
     3, 256, 2, 840 * kMHz, 51.2 * kGB, kAdrenoLoads, kMesaAdreno, kSnapdragon888, kSnapdragon888},
    {"adreno-730", "Adreno 730 (Snapdragon 8+ Gen 1)", "Adreno (TM) 730", "adreno-7xx", DeviceType::integrated,
     6 * kHeapGiB, 4, 256, 2, 900 * kMHz, 51.2 * kGB, kAdrenoLoads, kMesaAdreno, kAdreno730, kSnapdragons},
    {"adreno-740", "Adreno 740 (Snapdragon 8 Gen 2)", "Adreno (TM) 740", "adreno-7xx", DeviceType::integrated,
     6 * kHeapGiB, 6, 256, 2, 680 * kMHz, 64.0 * kGB, kAdrenoLoads, kMesaAdreno, kAdreno740, kAdreno740},
    {"adreno-750", "Adreno 750 (Snapdragon 8 Gen 3)", "Adreno (TM) 750", "adreno-7xx", DeviceType::integrated,
     9 * kHeapGiB, 6, 256, 2, 1000 * kMHz, 76.8 * kGB, kAdrenoLoads, kMesaAdreno, kAdreno750, kAdreno750},
    {"polaris10", "Radeon RX 480 (Polaris 10)", "POLARIS10", "radeon-gfx8", DeviceType::discrete, 8 * kHeapGiB, 36, 64,
     1, 1266 * kMHz, 256 * kGB, load_slots(421), kRadeon480, kRadeon480, kRadeon480},
    {"vega10", "Radeon RX Vega 64 (Vega 10)", "VEGA10", "radeon-gfx9", DeviceType::discrete, 8 * kHeapGiB, 64, 64, 2,
     1546 * kMHz, 483.8 * kGB, load_slots(417), kVega64, kVega64, kVega64},
    {"navi21", "Radeon RX 6800 XT (Navi 21)", "NAVI21", "radeon-gfx9", DeviceType::discrete, 16 * kHeapGiB, 72, 64, 2,
     2250 * kMHz, 512 * kGB, load_slots(404), kRadeon6800, kRadeon6800, kMemory6800},
    // Two multiply-adds in one instruction are not counted: the compiler pairs none in graft's kernels.
    {"gfx1150", "Radeon 890M (Strix Point)", "GFX1150", "radeon-gfx9", DeviceType::integrated, 8 * kHeapGiB, 16, 64, 2,
     2900 * kMHz, 120 * kGB, kRadeonLoads, kRadeon890M, kClock890M, kRadeon890M},
    {"gfx1201", "Radeon RX 9070 XT (Navi 48)", "GFX1201", "radeon-gfx9", DeviceType::discrete, 16 * kHeapGiB, 64, 64, 2,
     2970 * kMHz, 644.6 * kGB, kRadeonLoads, kRadeon9070, kRadeon9070, kRadeon9070},
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
