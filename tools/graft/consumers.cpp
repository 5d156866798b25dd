#include "tools/graft/consumers.h"
#include "tools/common/status.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <type_traits>

namespace graft::cli {
namespace {

constexpr std::size_t kShownNodes = 12;
constexpr std::size_t kShownOps = 8;

void add(graft_profile_row& sum, const graft_profile_row& row) {
  sum.nodes += 1;
  sum.calls += row.calls;
  sum.ms += row.ms;
  sum.flops += row.flops;
  sum.bytes += row.bytes;
  sum.peak_bytes += row.peak_bytes;
}

/// Per second, in thousand millions.
std::string giga_text(std::uint64_t count, double seconds) {
  if (seconds <= 0 || count == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(count) / seconds * 1e-9);
  return text;
}

std::string share(double part, double whole) {
  if (whole <= 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * part / whole);
  return text;
}

void print_row(const ProfileReport& all, const graft_profile_row& row, const std::string& second) {
  const auto steps = static_cast<double>(all.info.steps);
  std::printf("%-42s %-20s %8.6g %10.3f %7s %9s %8s %12s %7s\n", row.name, second.c_str(),
              static_cast<double>(row.calls) / steps, row.ms / steps, share(row.ms, all.info.device_ms).c_str(),
              giga_text(row.flops, row.ms / 1e3).c_str(), giga_text(row.bytes, row.ms / 1e3).c_str(),
              row.peak_bytes == 0 ? "" : bytes_text(row.peak_bytes).c_str(),
              row.peak_bytes == 0
                  ? ""
                  : share(static_cast<double>(row.peak_bytes), static_cast<double>(all.info.peak_bytes)).c_str());
}

void print_titles(const char* what, const char* second) {
  std::printf("\n%-42s %-20s %8s %10s %7s %9s %8s %12s %7s\n", what, second, "calls", "ms", "share", "GFLOP/s", "GB/s",
              "at the peak", "share");
}

/// The rows that take most time, and those that hold most memory, by falling time; all others as one.
void print_top(const ProfileReport& all, const std::vector<graft_profile_row>& rows, std::size_t most, bool ops) {
  std::vector<const graft_profile_row*> by_memory;
  for (const graft_profile_row& row : rows) {
    if (row.peak_bytes != 0) by_memory.push_back(&row);
  }
  std::stable_sort(by_memory.begin(), by_memory.end(), [](const graft_profile_row* a, const graft_profile_row* b) {
    return a->peak_bytes > b->peak_bytes;
  });
  if (by_memory.size() > most / 2) by_memory.resize(most / 2);
  graft_profile_row rest = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const graft_profile_row& row = rows[i];
    if (i < most || std::find(by_memory.begin(), by_memory.end(), &row) != by_memory.end()) {
      print_row(all, row, ops ? cat(row.nodes, row.nodes == 1 ? " node" : " nodes") : row.op);
      continue;
    }
    add(rest, row);
  }
  if (rest.nodes == 0) return;
  const std::string name = cat(rest.nodes, " more");
  rest.name = name.c_str();
  print_row(all, rest, "");
}

}  // namespace

Result<ProfileReport> report_of(graft_context* context, graft_profile* profile) {
  ProfileReport out;
  out.info.struct_size = sizeof out.info;
  TRY(checked(graft_profile_describe(profile, &out.info), context));
  const auto read = [&](auto give, auto& rows) {
    for (;;) {
      typename std::remove_reference_t<decltype(rows)>::value_type row = {};
      row.struct_size = sizeof row;
      if (give(profile, rows.size(), &row) != GRAFT_OK) return;
      rows.push_back(row);
    }
  };
  read(graft_profile_node, out.nodes);
  read(graft_profile_op, out.ops);
  read(graft_profile_phase_at, out.phases);
  return out;
}

void print_consumers(const ProfileReport& all) {
  const graft_profile_info& info = all.info;
  if (info.steps == 0) {
    std::printf("\nNo step was profiled.\n");
    return;
  }
  const auto steps = static_cast<double>(info.steps);
  print_titles("by op, of one step", "");
  print_top(all, all.ops, kShownOps, true);
  print_titles("by node", "op");
  print_top(all, all.nodes, kShownNodes, false);
  std::printf("\nMeans of %llu step%s: %.3f ms, of which %.3f ms (%s) in %.6g dispatches and the copies on the device",
              static_cast<unsigned long long>(info.steps), info.steps == 1 ? "" : "s", info.step_ms / steps,
              info.device_ms / steps, share(info.device_ms, info.step_ms).c_str(),
              static_cast<double>(info.dispatches) / steps);
  std::printf("; %.6g barriers, %.6g submissions.\nThe host:", static_cast<double>(info.barriers) / steps,
              static_cast<double>(info.submissions) / steps);
  double compiling = 0, recording = 0;
  for (const graft_profile_phase& phase : all.phases) {
    const std::string_view name = phase.name;
    if (name == "compile") compiling = phase.total_ms;
    if (name == "record") recording = phase.total_ms;
    if (name == "compile" || name == "record") continue;
    const bool is_rare = name == "refill" || name == "agree" || name == "exchange";
    if (is_rare && phase.ms == 0) continue;
    std::printf(" %s %.3f ms,", phase.name, phase.ms / steps);
  }
  std::printf(" in each step; compiling %.1f ms and recording %.1f ms in all.\n", compiling, recording);
  if (*info.peak_node == '\0') return;
  std::printf("Most memory is in use at %s: %s of values and scratch memory, beside %s that stays.\n", info.peak_node,
              bytes_text(info.peak_bytes).c_str(), bytes_text(info.resident_bytes).c_str());
}

}  // namespace graft::cli
