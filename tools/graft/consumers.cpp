#include "tools/graft/consumers.h"
#include "tools/common/status.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

namespace graft::cli {
namespace {

constexpr std::size_t kShownNodes = 12;
constexpr std::size_t kShownOps = 8;

const char* copy_row(StepKind kind) {
  switch (kind) {
    case StepKind::upload: return "(inputs)";
    case StepKind::readback: return "(outputs)";
    case StepKind::refill: return "(streamed weights)";
    default: return "(copies)";
  }
}

/// Live bytes at the fullest moment, by the node that made them; inputs by "(inputs)".
std::map<std::string, std::uint64_t> held_at_peak(const Plan& plan) {
  std::map<std::string, std::uint64_t> held;
  if (plan.peak_node == kNoIndex) return held;
  std::set<std::uint32_t> inputs;
  for (const PlanPort& port : plan.inputs) inputs.insert(port.value);
  // Values that share memory count once, as the last that was made.
  std::map<std::uint32_t, const PlanValue*> owners;
  std::map<std::uint32_t, std::uint64_t> bytes;
  for (const PlanValue& value : plan.values) {
    if (value.space != Space::transient || value.bytes == 0) continue;
    if (value.first > plan.peak_node || value.last < plan.peak_node) continue;
    const PlanValue*& owner = owners[value.storage];
    if (owner == nullptr || owner->first < value.first) owner = &value;
    bytes[value.storage] = std::max(bytes[value.storage], value.bytes);
  }
  for (const auto& [storage, value] : owners) {
    const bool input = inputs.contains(value->value);
    held[input ? "(inputs)" : plan.nodes[value->first].name] += bytes[storage];
  }
  const PlanNode& peak = plan.nodes[plan.peak_node];
  if (peak.scratch_bytes != 0) held[peak.name] += peak.scratch_bytes;
  return held;
}

/// Adds up rows of the same name.
class Table {
 public:
  Consumer& row(const std::string& name, const std::string& op) {
    const auto [at, fresh] = index_.try_emplace(name, rows_.size());
    if (fresh) rows_.push_back({name, op, 0, 0, 0, 0, 0, 0});
    return rows_[at->second];
  }
  void add(const Plan& plan, const StepTime& time) {
    const Step& step = plan.steps[time.step];
    const PlanNode* node = step.node == kNoIndex ? nullptr : &plan.nodes[step.node];
    Consumer& row = node == nullptr ? this->row(copy_row(step.kind), "copy") : this->row(node->name, node->op);
    row.calls += 1;
    row.seconds += time.end - time.begin;
    row.flops += step.flops;
    row.bytes += step.bytes;
  }
  std::vector<Consumer> sorted() && {
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Consumer& a, const Consumer& b) { return a.seconds > b.seconds; });
    return std::move(rows_);
  }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<Consumer> rows_;
};

void add(Consumer& sum, const Consumer& node) {
  sum.nodes += 1;
  sum.calls += node.calls;
  sum.seconds += node.seconds;
  sum.flops += node.flops;
  sum.bytes += node.bytes;
  sum.peak_bytes += node.peak_bytes;
}

std::vector<Consumer> by_op(const std::vector<Consumer>& nodes) {
  Table table;
  for (const Consumer& node : nodes) {
    Consumer& row = table.row(node.op, node.op);
    add(row, node);
  }
  return std::move(table).sorted();
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

void print_row(const Consumers& all, const Consumer& row, const std::string& second) {
  const auto steps = static_cast<double>(all.steps);
  std::printf("%-42s %-20s %8.6g %10.3f %7s %9s %8s %12s %7s\n", row.name.c_str(), second.c_str(),
              static_cast<double>(row.calls) / steps, row.seconds * 1e3 / steps,
              share(row.seconds, all.device_seconds).c_str(), giga_text(row.flops, row.seconds).c_str(),
              giga_text(row.bytes, row.seconds).c_str(), row.peak_bytes == 0 ? "" : bytes_text(row.peak_bytes).c_str(),
              row.peak_bytes == 0
                  ? ""
                  : share(static_cast<double>(row.peak_bytes), static_cast<double>(all.arena_at_peak)).c_str());
}

void print_titles(const char* what, const char* second) {
  std::printf("\n%-42s %-20s %8s %10s %7s %9s %8s %12s %7s\n", what, second, "calls", "ms", "share", "GFLOP/s", "GB/s",
              "at the peak", "share");
}

/// The rows that take most time, and those that hold most memory, by falling time; all others as one.
void print_top(const Consumers& all, const std::vector<Consumer>& rows, std::size_t most, bool ops) {
  std::vector<const Consumer*> by_memory;
  for (const Consumer& row : rows) {
    if (row.peak_bytes != 0) by_memory.push_back(&row);
  }
  std::stable_sort(by_memory.begin(), by_memory.end(),
                   [](const Consumer* a, const Consumer* b) { return a->peak_bytes > b->peak_bytes; });
  if (by_memory.size() > most / 2) by_memory.resize(most / 2);
  Consumer rest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Consumer& row = rows[i];
    if (i < most || std::find(by_memory.begin(), by_memory.end(), &row) != by_memory.end()) {
      print_row(all, row, ops ? cat(row.nodes, row.nodes == 1 ? " node" : " nodes") : row.op);
      continue;
    }
    add(rest, row);
  }
  if (rest.nodes == 0) return;
  rest.name = cat(rest.nodes, " more");
  print_row(all, rest, "");
}

}  // namespace

Consumers consumers_of(const Profile& profile) {
  Consumers all;
  Table table;
  const Plan* fullest = nullptr;
  for (const Profile::StepTrace* step : profile.steps()) {
    ++all.steps;
    all.step_seconds += step->seconds();
    for (const Profile::Phase& phase : step->phases) {
      all.host_seconds[static_cast<std::size_t>(phase.phase)] +=
          std::chrono::duration<double>(phase.end - phase.begin).count();
    }
    for (const Profile::Run& run : step->runs) {
      const Plan& plan = profile.plans()[run.plan];
      if (fullest == nullptr || plan.lower_bound > fullest->lower_bound) fullest = &plan;
      all.barriers += plan.barriers;
      all.submissions += run.submissions;
      for (const StepTime& time : run.times) {
        table.add(plan, time);
        all.device_seconds += time.end - time.begin;
        all.dispatches += plan.steps[time.step].kind == StepKind::dispatch ? 1 : 0;
      }
    }
  }
  if (fullest != nullptr) {
    std::map<std::string, std::string> op_of;
    for (const PlanNode& node : fullest->nodes) op_of[node.name] = node.op;
    for (const auto& [name, bytes] : held_at_peak(*fullest)) {
      const auto op = op_of.find(name);
      table.row(name, op == op_of.end() ? "copy" : op->second).peak_bytes = bytes;
    }
    all.arena_at_peak = fullest->lower_bound;
    all.resident_bytes = fullest->memory.total() - fullest->transient_bytes;
    if (fullest->peak_node != kNoIndex) all.peak_node = fullest->nodes[fullest->peak_node].name;
  }
  all.nodes = std::move(table).sorted();
  all.ops = by_op(all.nodes);
  return all;
}

void print_consumers(const Consumers& all, const Profile& profile) {
  if (all.steps == 0) {
    std::printf("\nNo step was profiled.\n");
    return;
  }
  const auto steps = static_cast<double>(all.steps);
  print_titles("by op, of one step", "");
  print_top(all, all.ops, kShownOps, true);
  print_titles("by node", "op");
  print_top(all, all.nodes, kShownNodes, false);
  std::printf("\nMeans of %zu step%s: %.3f ms, of which %.3f ms (%s) in %.6g dispatches and the copies on the device",
              all.steps, all.steps == 1 ? "" : "s", all.step_seconds * 1e3 / steps, all.device_seconds * 1e3 / steps,
              share(all.device_seconds, all.step_seconds).c_str(), static_cast<double>(all.dispatches) / steps);
  std::printf("; %.6g barriers, %.6g submissions.\nThe host:", static_cast<double>(all.barriers) / steps,
              static_cast<double>(all.submissions) / steps);
  for (std::size_t i = 0; i < std::size(kHostPhaseNames); ++i) {
    const auto phase = static_cast<HostPhase>(i);
    if (phase == HostPhase::compile || phase == HostPhase::record) continue;
    const bool is_rare = phase == HostPhase::refill || phase == HostPhase::agree || phase == HostPhase::exchange;
    if (is_rare && all.host_seconds[i] == 0) continue;
    std::printf(" %s %.3f ms,", kHostPhaseNames[i].data(), all.host_seconds[i] * 1e3 / steps);
  }
  std::printf(" in each step; compiling %.1f ms and recording %.1f ms in all.\n",
              profile.seconds_in(HostPhase::compile) * 1e3, profile.seconds_in(HostPhase::record) * 1e3);
  if (all.peak_node.empty()) return;
  std::printf("Most memory is in use at %s: %s of values and scratch memory, beside %s that stays.\n",
              all.peak_node.c_str(), bytes_text(all.arena_at_peak).c_str(), bytes_text(all.resident_bytes).c_str());
}

}  // namespace graft::cli
