#include "tools/graft/shared/consumers.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <type_traits>

#include "tools/common/status.h"
#include "tools/common/terminal.h"

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

Table table_of(const char* what, const char* second) {
  using Kind = Table::Kind;
  return Table({{what, 42, Kind::name},
                {second, 20, Kind::name},
                {"calls", 8, Kind::optional},
                {"ms", 10, Kind::number},
                {"share", 7, Kind::number},
                {"GFLOP/s", 9, Kind::optional},
                {"GB/s", 8, Kind::optional},
                {"at the peak", 12, Kind::number},
                {"share", 7, Kind::optional}});
}

void add_row(Table& table, const ProfileReport& all, const graft_profile_row& row, const std::string& second) {
  const auto steps = static_cast<double>(all.info.steps);
  const bool held = row.peak_bytes != 0;
  table.row({row.name, second, number_text("%.6g", static_cast<double>(row.calls) / steps),
             number_text("%.3f", row.ms / steps), share(row.ms, all.info.device_ms), giga_text(row.flops, row.ms / 1e3),
             giga_text(row.bytes, row.ms / 1e3), held ? bytes_text(row.peak_bytes) : "",
             held ? share(static_cast<double>(row.peak_bytes), static_cast<double>(all.info.peak_bytes)) : ""});
}

/// The rows that take most time, and those that hold most memory, by falling time; all others as one.
void print_top(Table table, const ProfileReport& all, const std::vector<graft_profile_row>& rows, std::size_t most,
               bool ops) {
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
      add_row(table, all, row, ops ? cat(row.nodes, row.nodes == 1 ? " node" : " nodes") : row.op);
      continue;
    }
    add(rest, row);
  }
  const std::string name = cat(rest.nodes, " more");
  rest.name = name.c_str();
  if (rest.nodes != 0) add_row(table, all, rest, "");
  to_stdout("\n");
  table.print();
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
    to_stdout("\nNo step was profiled.\n");
    return;
  }
  const auto steps = static_cast<double>(info.steps);
  print_top(table_of("by op, of one step", ""), all, all.ops, kShownOps, true);
  print_top(table_of("by node", "op"), all, all.nodes, kShownNodes, false);
  to_stdout("\nMeans of %llu step%s: %.3f ms, of which %.3f ms (%s) in %.6g dispatches and the copies on the device",
            static_cast<unsigned long long>(info.steps), info.steps == 1 ? "" : "s", info.step_ms / steps,
            info.device_ms / steps, share(info.device_ms, info.step_ms).c_str(),
            static_cast<double>(info.dispatches) / steps);
  to_stdout("; %.6g barriers, %.6g submissions.\nThe host:", static_cast<double>(info.barriers) / steps,
            static_cast<double>(info.submissions) / steps);
  double compiling = 0, recording = 0;
  for (const graft_profile_phase& phase : all.phases) {
    const std::string_view name = phase.name;
    if (name == "compile") compiling = phase.total_ms;
    if (name == "record") recording = phase.total_ms;
    if (name == "compile" || name == "record") continue;
    const bool is_rare = name == "refill" || name == "agree" || name == "exchange";
    if (is_rare && phase.ms == 0) continue;
    to_stdout(" %s %.3f ms,", phase.name, phase.ms / steps);
  }
  to_stdout(" in each step; compiling %.1f ms and recording %.1f ms in all.\n", compiling, recording);
  if (*info.peak_node == '\0') return;
  to_stdout("Most memory is in use at %s: %s of values and scratch memory, beside %s that stays.\n", info.peak_node,
            bytes_text(info.peak_bytes).c_str(), bytes_text(info.resident_bytes).c_str());
}

}  // namespace graft::cli
