#include "tools/bench/time_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "tools/common/options.h"

namespace graft::cli {
namespace {

constexpr std::uint64_t kYardstick = 768;  // of gemm_yardstick()
constexpr std::size_t kNodesInTable = 12;
// graft bench device --json on two cores of an AMD EPYC, 2026-11-26, Mesa 22.3.6, beside other work.
constexpr std::string_view kLlvmpipe = "llvmpipe";
constexpr const char* kLlvmpipeFigures =
    R"({"device": "llvmpipe on two cores of an AMD EPYC", "gemm_gflops": 49.6, "copy_gbps": 11.5, "transfer_gbps": 23.4,
        "dispatch_us": 18.4, "barrier_us": 1.3, "submit_us": 37.1})";
constexpr std::size_t kMostBytes = 65536;  // such a file has one object of numbers

std::vector<double> ranks(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> out(numbers.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) out[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return out;
}

// How wrong an estimate may be, as far as it is known.
std::string error_text(const KnownSpeed& known) {
  return known.measured
             ? "Estimated, not measured: of graft's own kernels on software Vulkan half took 0.98 to 1.4 times as long."
             : "Estimated by public figures: graft measured nothing on such a device, which may well take several "
               "times "
               "as long. It is for comparing models, batches and devices.";
}

struct KnownFigures {
  std::string device;
  DeviceFigures figures;
};

// What graft bench device --json printed, or a file of it.
Result<KnownFigures> read_figures(const std::string& given) {
  TRY_ASSIGN(const std::string text, json_or_file(given));
  nlohmann::json object;
  if (text.size() <= kMostBytes) object = nlohmann::json::parse(text, nullptr, false);
  const auto refused = [](const auto&... parts) {
    return invalid(parts..., "; graft bench device --json prints such figures.");
  };
  if (!object.is_object()) return refused("The figures of a device are not a JSON object");
  KnownFigures known;
  const auto name = object.find("device");
  known.device = name != object.end() && name->is_string() ? shown(name->get<std::string>()) : "that device";
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
    const auto found = object.find(member.name);
    if (found == object.end() || !found->is_number()) return refused("The figures do not say \"", member.name, "\"");
    const double value = found->get<double>();
    if (!std::isfinite(value) || value < 0 || (value == 0 && !member.may_be_zero)) {
      return refused("\"", member.name, "\" is ", shown(found->dump()));
    }
    member.figure = value * member.unit;
  }
  return known;
}

}  // namespace

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
  TRY_ASSIGN(const KnownFigures measured, read_figures(llvmpipe ? kLlvmpipeFigures : given));
  return KnownSpeed{measured.device, measured_speed(measured.figures, target), true};
}

void ModelTime::add(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed, double times) {
  const PlanTime time = estimate_plan(plan, target, speed);
  all.add(time.all, times);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (time.nodes[i].seconds() <= 0) continue;
    nodes.push_back({plan.nodes[i].name, plan.nodes[i].op, {}});
    nodes.back().time.add(time.nodes[i], times);
  }
  std::ranges::stable_sort(nodes, std::ranges::greater{}, [](const Node& node) { return node.time.seconds(); });
}

void print_time(const ModelTime& time, const KnownSpeed& known, const char* what) {
  const auto ms = [](double seconds) { return 1e3 * seconds; };
  std::printf("By the figures of %s %s takes about %.3g ms: arithmetic %.3g, memory %.3g, dispatches %.3g.\n%s\n",
              known.device.c_str(), what, ms(time.all.seconds()), ms(time.all.arithmetic), ms(time.all.memory),
              ms(time.all.dispatching), error_text(known).c_str());
  std::printf("\n%-44s %-20s %10s %7s  %s\n", "longest nodes", "op", "ms", "share", "most of it");
  for (const ModelTime::Node& node : std::span(time.nodes).first(std::min(time.nodes.size(), kNodesInTable))) {
    const TimeEstimate& t = node.time;
    const bool handing = t.dispatching > std::max(t.arithmetic, t.memory);
    std::printf("%-44s %-20s %10.3g %6.1f%%  %s\n", node.name.c_str(), node.op.c_str(), ms(t.seconds()),
                100 * t.seconds() / time.all.seconds(),
                handing                   ? "dispatches"
                : t.memory > t.arithmetic ? "memory"
                                          : "arithmetic");
  }
}

nlohmann::ordered_json time_json(const ModelTime& time, const KnownSpeed& known) {
  const auto parts = [](const TimeEstimate& t) {
    return nlohmann::ordered_json{{"seconds", t.seconds()},
                                  {"arithmetic_s", t.arithmetic},
                                  {"memory_s", t.memory},
                                  {"dispatching_s", t.dispatching}};
  };
  nlohmann::ordered_json out = {
      {"device", known.device}, {"figures", known.measured ? "measured" : "public"}, {"error", error_text(known)}};
  out.update(parts(time.all));
  out["nodes"] = nlohmann::ordered_json::array();
  for (const ModelTime::Node& node : time.nodes) {
    nlohmann::ordered_json row = {{"name", node.name}, {"op", node.op}};
    row.update(parts(node.time));
    out["nodes"].push_back(std::move(row));
  }
  return out;
}

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double both = 0, square_x = 0, square_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    square_x += (x[i] - mean) * (x[i] - mean);
    square_y += (y[i] - mean) * (y[i] - mean);
  }
  return square_x > 0 && square_y > 0 ? both / std::sqrt(square_x * square_y) : 0;
}

}  // namespace graft::cli
