#include "tools/graft/time_estimate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "tools/graft/options.h"

namespace graft::cli {
namespace {

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

}  // namespace

void TimeEstimate::add(const TimeEstimate& other, double times) {
  arithmetic += times * other.arithmetic;
  memory += times * other.memory;
  dispatching += times * other.dispatching;
}

TimeEstimate estimate_dispatch(std::uint64_t flops, std::uint64_t bytes, bool barrier, const DeviceFigures& figures) {
  // The rate of a product, which kernels reach, not the one of registers alone.
  const double arithmetic = static_cast<double>(flops) / figures.gemm_flops;
  const double memory = static_cast<double>(bytes) / figures.copy_bytes;
  TimeEstimate time;
  (memory > arithmetic ? time.memory : time.arithmetic) = std::max(memory, arithmetic);
  time.dispatching = figures.dispatch_seconds + (barrier ? figures.barrier_seconds : 0);
  return time;
}

TimeEstimate estimate_copy(std::uint64_t bytes, const DeviceFigures& figures) {
  // Read and written.
  return {.memory = 2 * static_cast<double>(bytes) / figures.transfer_bytes, .dispatching = figures.dispatch_seconds};
}

Result<KnownFigures> read_figures(const std::string& given) {
  GRAFT_TRY_ASSIGN(const std::string text, json_or_file(given));
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
