#include "tools/bench/bench_rows.h"

#include <algorithm>
#include <cstdio>

#include "tools/bench/time_estimate.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

double flops_share(const Row& row, const DeviceFigures& figures) {
  return per_second(row.flops, row.time.median) / figures.f32_flops;
}

// As a share of the rate of a plain product.
double gemm_share(const Row& row, const DeviceFigures& figures) {
  return per_second(row.flops, row.time.median) / figures.gemm_flops;
}

double bytes_share(const Row& row, const DeviceFigures& figures) {
  return per_second(row.bytes, row.time.median) / figures.copy_bytes;
}

/// Rows are printed as they are measured, so the columns are as declared.
Table row_table() {
  using Kind = Table::Kind;
  return Table({{"", 44, Kind::name},
                {"ms", 9, Kind::number},
                {"GFLOP/s", 9, Kind::number},
                {"share", 6, Kind::number},
                {"GEMM", 6, Kind::optional},
                {"GB/s", 9, Kind::number},
                {"share", 6, Kind::optional},
                {"  beside", 24, Kind::name}},
               0, true);
}

}  // namespace

void print_row_titles() { row_table().print(); }

void print_row(const Row& row, const DeviceFigures& figures) {
  std::string rivals;
  for (const Row::Rival& rival : row.rivals) {
    rivals += cat(" ", rival.name, number_text(" %.2f GFLOP/s", per_second(row.flops, rival.time.median) * 1e-9),
                  number_text(" (%.1fx)", rival.time.median / row.time.median));
  }
  Table table = row_table();
  table.row({row.name, number_text("%.3f", row.time.median * 1e3),
             number_text("%.2f", per_second(row.flops, row.time.median) * 1e-9),
             number_text("%.1f%%", 100 * flops_share(row, figures)),
             number_text("%.0f%%", 100 * gemm_share(row, figures)),
             number_text("%.2f", per_second(row.bytes, row.time.median) * 1e-9),
             number_text("%.1f%%", 100 * bytes_share(row, figures)), rivals});
  table.print(false);
  std::fflush(stdout);
}

nlohmann::ordered_json row_json(const Row& row, const DeviceFigures& figures) {
  nlohmann::ordered_json out = {{"name", row.name},
                                {"flops", row.flops},
                                {"bytes", row.bytes},
                                {"median_s", row.time.median},
                                {"best_s", row.time.best},
                                {"first_s", row.time.first},
                                {"estimated_s", row.estimated},
                                {"gflops", per_second(row.flops, row.time.median) * 1e-9},
                                {"share_of_arithmetic", flops_share(row, figures)},
                                {"share_of_gemm", gemm_share(row, figures)},
                                {"gbps", per_second(row.bytes, row.time.median) * 1e-9},
                                {"share_of_copy", bytes_share(row, figures)}};
  for (const Row::Rival& rival : row.rivals) {
    out[rival.name + "_gflops"] = per_second(row.flops, rival.time.median) * 1e-9;
    out["times_" + rival.name] = rival.time.median / row.time.median;
  }
  return out;
}

EstimateQuality estimate_quality(const std::vector<Row>& rows) {
  std::vector<double> measured, estimated, ratios;
  for (const Row& row : rows) {
    measured.push_back(row.time.median);
    estimated.push_back(row.estimated);
    ratios.push_back(measured.back() / estimated.back());
  }
  if (rows.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  return {rank_correlation(measured, estimated), ratios[ratios.size() / 4], ratios[ratios.size() * 3 / 4]};
}

void print_estimate_quality(const std::vector<Row>& rows) {
  if (rows.size() < 2) return;
  const EstimateQuality quality = estimate_quality(rows);
  to_stdout(
      "\nEstimates of graft plan --time: rank correlation with these %zu medians %.3f; half of them take %.2g to "
      "%.2g times as long.\n",
      rows.size(), quality.rank_correlation, quality.low, quality.high);
}

nlohmann::ordered_json estimate_quality_json(const std::vector<Row>& rows) {
  const EstimateQuality quality = estimate_quality(rows);
  return {{"rank_correlation", quality.rank_correlation},
          {"measured_by_estimated_quartiles", {quality.low, quality.high}}};
}

void print_figures(const DeviceFigures& f) {
  const auto rate = [](const char* what, double per_second, const char* unit) {
    if (per_second > 0) {
      to_stdout("%-44s %12.2f %s\n", what, per_second * 1e-9, unit);
    } else {
      to_stdout("%-44s %12s\n", what, "not supported");
    }
  };
  rate("multiply and add, f32", f.f32_flops, "GFLOP/s");
  rate("multiply and add, f16", f.f16_flops, "GFLOP/s");
  rate("product 768x768x768 of this program, f32", f.gemm_flops, "GFLOP/s");
  rate("dot product of four 8-bit integers", f.dot8_ops, "Gop/s");
  rate("copy by a kernel, read plus written", f.copy_bytes, "GB/s");
  rate("read by a kernel", f.read_bytes, "GB/s");
  rate("copy by a command, read plus written", f.transfer_bytes, "GB/s");
  const auto time = [](const char* what, double seconds) { to_stdout("%-44s %12.2f us\n", what, seconds * 1e6); };
  time("dispatch", f.dispatch_seconds);
  time("barrier between two dispatches", f.barrier_seconds);
  time("empty submission and the wait for it", f.submit_seconds);
  time("a word there, a dispatch, a word back", f.round_trip_seconds);
}

nlohmann::ordered_json figures_json(const DeviceFigures& f) {
  return {{"f32_gflops", f.f32_flops * 1e-9},           {"f16_gflops", f.f16_flops * 1e-9},
          {"gemm_gflops", f.gemm_flops * 1e-9},         {"dot8_gops", f.dot8_ops * 1e-9},
          {"copy_gbps", f.copy_bytes * 1e-9},           {"read_gbps", f.read_bytes * 1e-9},
          {"transfer_gbps", f.transfer_bytes * 1e-9},   {"dispatch_us", f.dispatch_seconds * 1e6},
          {"barrier_us", f.barrier_seconds * 1e6},      {"submit_us", f.submit_seconds * 1e6},
          {"round_trip_us", f.round_trip_seconds * 1e6}};
}

}  // namespace graft::cli
