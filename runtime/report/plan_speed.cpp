#include "runtime/report/plan_speed.h"

#include <cmath>
#include <string_view>

#include "platform/base/json.h"
#include "platform/base/stable_sort.h"

namespace graft {
namespace {

constexpr std::uint64_t kYardstick = 768;  // of gemm_yardstick()
// graft bench device --json on two cores of an AMD EPYC, 2026-11-26, Mesa 22.3.6, beside other work.
constexpr std::string_view kLlvmpipe = "llvmpipe";
constexpr const char* kLlvmpipeFigures =
    R"({"device": "llvmpipe on two cores of an AMD EPYC", "gemm_gflops": 49.6, "copy_gbps": 11.5, "transfer_gbps": 23.4,
        "dispatch_us": 18.4, "barrier_us": 1.3, "submit_us": 37.1})";
constexpr std::size_t kMostFigures = 65536;  // such a file has one object of numbers

/// A number for a message.
std::string figure_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p63) return cat(static_cast<std::int64_t>(value));
  return cat(value);
}

struct KnownFigures {
  std::string device;
  DeviceFigures figures;
};

/// What graft bench device --json printed.
Result<KnownFigures> read_figures(const std::string& text) {
  json::Value object;
  if (text.size() <= kMostFigures) {
    if (auto parsed = json::parse(text); parsed.ok()) object = std::move(*parsed);
  }
  const auto refused = [](const auto&... parts) {
    return invalid(parts..., "; graft bench device --json prints such figures.");
  };
  if (!object.is_object()) return refused("The figures of a device are not a JSON object");
  KnownFigures known;
  const json::Value* const name = object.find("device");
  known.device = name != nullptr && name->is_string() ? shown(name->text()) : "that device";
  const struct {
    const char* name;
    double unit;
    double& figure;
    bool may_be_zero = false;
  } members[] = {
      {"gemm_gflops", 1e9, known.figures.gemm_flops},
      {"copy_gbps", 1e9, known.figures.copy_bytes},
      {"transfer_gbps", 1e9, known.figures.transfer_bytes},
      {"dispatch_us", 1e-6, known.figures.dispatch_seconds, true},
      {"barrier_us", 1e-6, known.figures.barrier_seconds, true},
      {"submit_us", 1e-6, known.figures.submit_seconds, true},
  };
  for (const auto& member : members) {
    const json::Value* const found = object.find(member.name);
    if (found == nullptr || found->kind() != json::Value::Kind::number) {
      return refused("The figures do not say \"", member.name, "\"");
    }
    const double value = found->number();
    if (!std::isfinite(value) || value < 0 || (value == 0 && !member.may_be_zero)) {
      return refused("\"", member.name, "\" is ", figure_text(value));
    }
    member.figure = value * member.unit;
  }
  return known;
}

}  // namespace

std::string error_text(const KnownSpeed& known) {
  return known.measured
             ? "Estimated, not measured: of graft's own kernels on software Vulkan half took 0.98 to 1.4 times as long."
             : "Estimated by public figures: graft measured nothing on such a device, which may well take several "
               "times "
               "as long. It is for comparing models, batches and devices.";
}

gpu::Speed measured_speed(const DeviceFigures& figures, const gpu::Target& target) {
  gpu::Speed speed;
  speed.memory_bytes = figures.copy_bytes;
  speed.transfer_bytes = figures.transfer_bytes;
  speed.dispatch_seconds = figures.dispatch_seconds;
  speed.barrier_seconds = figures.barrier_seconds;
  speed.submit_seconds = figures.submit_seconds;
  if (const gpu::Figures* const known = gpu::figures_of(target.caps); known != nullptr) {
    const gpu::Speed by_pages = gpu::speed_of(*known);
    speed.units = by_pages.units;
    speed.lanes = by_pages.lanes;
    speed.load_slots = by_pages.load_slots;
  }
  // Not the rate of registers alone: what products reach, which are most of the arithmetic there is.
  speed.f32_flops = figures.gemm_flops / product_share(target, kYardstick, speed);
  return speed;
}

Result<KnownSpeed> read_speed(const std::string& given, const gpu::Target& target) {
  const gpu::Figures* const known = given.empty() ? gpu::figures_of(target.caps) : gpu::find_figures(given);
  if (known != nullptr) return KnownSpeed{std::string(known->summary), gpu::speed_of(*known)};
  const bool llvmpipe = given.empty() ? target.caps.device_name.starts_with(kLlvmpipe) : given == kLlvmpipe;
  if (given.empty() && !llvmpipe) {
    std::string names(kLlvmpipe);
    for (const gpu::Figures& f : gpu::known_figures()) names += cat(", ", f.name);
    return invalid("Nothing is known of the speed of \"", target.caps.device_name,
                   "\"; --time FIGURES takes what graft bench ",
                   "device --json prints there, and these are known: ", names, ".");
  }
  GRAFT_TRY_ASSIGN(const KnownFigures measured, read_figures(llvmpipe ? kLlvmpipeFigures : given));
  return KnownSpeed{measured.device, measured_speed(measured.figures, target), true};
}

bool is_known_speed(const std::string& given) {
  return given.empty() || given == kLlvmpipe || gpu::find_figures(given) != nullptr;
}

void ModelTime::add(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed, double times) {
  const PlanTime time = estimate_plan(plan, target, speed);
  all.add(time.all, times);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (time.nodes[i].seconds() <= 0) continue;
    nodes.push_back({plan.nodes[i].name, plan.nodes[i].op, {}});
    nodes.back().time.add(time.nodes[i], times);
  }
  graft::stable_sort(nodes.begin(), nodes.end(),
                     [](const Node& a, const Node& b) { return a.time.seconds() > b.time.seconds(); });
}

}  // namespace graft
