#include "tools/graft/report/plan_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

constexpr std::size_t kNodesInTable = 12;
using Kind = Table::Kind;

std::string bytes_in(const PlanDocument& part, const char* name) { return bytes_text(count_in(part, name)); }

/// "1.23 M", of a count or of FLOPs.
std::string si_in(const PlanDocument& part, const char* name) { return si_text(number_in(part, name)); }

std::uint64_t sum_of(const PlanDocument& rows, const char* name) {
  std::uint64_t sum = 0;
  for (const PlanDocument& row : rows) sum += count_in(row, name);
  return sum;
}

void print_saved(const PlanDocument& saved) {
  if (saved.empty()) return;
  to_stdout("\nSaved for backward: %zu values, %s\n", saved.size(), bytes_text(sum_of(saved, "bytes")).c_str());
  Table table({{"", 32, Kind::name}, {"", 14, Kind::number}, {"", 0, Kind::name}}, 2);
  for (const PlanDocument& value : saved) {
    const PlanDocument& readers = value.at("readers");
    table.row({text_in(value, "name"), bytes_in(value, "bytes"),
               cat(" read by ", readers.empty() ? "?" : readers.front().get_ref<const std::string&>(),
                   readers.size() > 1 ? cat(" and ", readers.size() - 1, " more") : "")});
  }
  table.print(false);
}

void print_recomputed(const PlanDocument& plan) {
  const PlanDocument& recomputed = plan.at("recomputed");
  if (recomputed.empty()) return;
  to_stdout("\nComputed again in the backward pass: %zu values, %s, %sFLOP more\n", recomputed.size(),
            bytes_text(sum_of(recomputed, "bytes")).c_str(), (si_in(plan, "recomputed_flops") + " ").c_str());
  Table table({{"", 32, Kind::name}, {"", 14, Kind::number}, {"", 0, Kind::name}}, 2);
  for (const PlanDocument& value : recomputed) {
    table.row({text_in(value, "name"), bytes_in(value, "bytes"),
               cat(" ", si_in(value, "flops"), " FLOP by ", text_in(value, "producer"))});
  }
  table.print(false);
}

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

/// Dispatches that stand for those of many tensors, and nodes that stand for several.
void print_merged(const PlanDocument& plan) {
  for (const PlanDocument& dispatch : plan.at("merged")) {
    to_stdout("One dispatch of %s for %llu tensors or parts of them.\n", text_in(dispatch, "op").c_str(),
              static_cast<unsigned long long>(count_in(dispatch, "tensors")));
  }
  std::uint64_t fused = 0;
  std::uint64_t parts = 0;
  for (const PlanDocument& node : plan.at("nodes")) {
    if (count_in(node, "parts") < 2) continue;
    ++fused;
    parts += count_in(node, "parts");
  }
  if (fused != 0) {
    to_stdout(
        "%llu fused nodes do the work of %llu: elementwise ops, products and norms with what stands beside them.\n",
        static_cast<unsigned long long>(fused), static_cast<unsigned long long>(parts));
  }
}

void print_costliest(const PlanDocument& plan) {
  std::vector<std::pair<std::uint64_t, const PlanDocument*>> nodes;
  for (const PlanDocument& node : plan.at("nodes")) nodes.emplace_back(count_in(node, "flops"), &node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (nodes.size() > kNodesInTable) nodes.resize(kNodesInTable);
  to_stdout("\n");
  Table table({{"costliest nodes", 44, Kind::name},
               {"op", 20, Kind::name},
               {"FLOPs", 10, Kind::number},
               {"moved", 14, Kind::number},
               {"live then", 14, Kind::optional}});
  for (const auto& [flops, node] : nodes) {
    table.row({text_in(*node, "name"), text_in(*node, "op"), si_text(static_cast<double>(flops)),
               bytes_in(*node, "bytes"), bytes_in(*node, "live_bytes")});
  }
  table.print();
}

// Nodes that made the same choice for the same reason stand on one line.
void print_choices(const PlanDocument& plan) {
  std::map<std::pair<std::string, std::string>, std::uint32_t> counts;
  for (const PlanDocument& node : plan.at("nodes")) {
    for (const PlanDocument& choice : node.at("choices")) {
      const std::string& key = text_in(choice, "key");
      ++counts[{cat(key.substr(0, key.find(' ')), ": ", text_in(choice, "variant")), text_in(choice, "why")}];
    }
  }
  if (counts.empty()) return;
  to_stdout("\n");
  Table table({{"kernel variants", 34, Kind::name}, {"nodes", 6, Kind::number}, {" why", 0, Kind::name}});
  for (const auto& [choice, count] : counts) table.row({choice.first, cat(count), cat(" ", choice.second)});
  table.print();
}

/// "+12 gelu, -12 erf"; what came first.
std::string changes_text(const PlanDocument& changes) {
  std::string more, fewer;
  for (const auto& [op, value] : changes.items()) {
    const auto count = value.get<std::int64_t>();
    std::string& list = count > 0 ? more : fewer;
    list += cat(list.empty() ? "" : ", ", count > 0 ? "+" : "", count, " ", op);
  }
  return cat(more, more.empty() || fewer.empty() ? "" : ", ", fewer);
}

}  // namespace

void print_plan(const PlanDocument& plan, const std::string& title) {
  to_stdout("%s\n\n", title.c_str());
  for (const auto& [name, bytes] : plan.at("memory").items()) {
    const auto count = bytes.get<std::uint64_t>();
    to_stdout("  %-12s %14s  %s\n", name.c_str(), bytes_text(count).c_str(), grouped(count).c_str());
  }
  to_stdout("  %-12s %14s  %s\n", "total", bytes_in(plan, "total").c_str(), grouped(count_in(plan, "total")).c_str());
  to_stdout("\nArena %s; the largest sum of live bytes is %s", bytes_in(plan, "arena").c_str(),
            bytes_in(plan, "lower_bound").c_str());
  if (plan.contains("peak")) {
    const std::uint64_t place = count_in(plan, "peak");
    const PlanDocument& peak = plan.at("nodes").at(place);
    to_stdout(", at node %llu of %zu: %s (%s)", static_cast<unsigned long long>(place + 1), plan.at("nodes").size(),
              text_in(peak, "name").c_str(), text_in(peak, "op").c_str());
  }
  to_stdout(".\n%sFLOP, %s moved, %llu dispatches of %llu kernels, %llu barriers; %llu submissions at most.\n",
            (si_in(plan, "flops") + " ").c_str(), bytes_in(plan, "bytes_moved").c_str(),
            static_cast<unsigned long long>(count_in(plan, "dispatches")),
            static_cast<unsigned long long>(count_in(plan, "kernels")),
            static_cast<unsigned long long>(count_in(plan, "barriers")),
            static_cast<unsigned long long>(count_in(plan, "submissions_at_most")));
  print_merged(plan);
  print_saved(plan.at("saved"));
  print_recomputed(plan);
  print_costliest(plan);
  print_choices(plan);
}

void print_precision(const PlanDocument& report) {
  const PlanDocument& precision = report.at("precision");
  if (precision.at("ops").empty()) return;
  to_stdout("Kept as %s, or in f32 where a reason is given; kernels compute in f32 all the same:\n",
            text_in(precision, "storage").c_str());
  Table table({{"", 24, Kind::name},
               {"", 8, Kind::word},
               {"", 5, Kind::word},
               {"", 6, Kind::number},
               {"", 6, Kind::word},
               {"", 14, Kind::number},
               {"", 0, Kind::name}},
              2);
  for (const PlanDocument& row : precision.at("ops")) {
    table.row({text_in(row, "op"), flag_in(row, "backward") ? "backward" : "", text_in(row, "storage"),
               cat(count_in(row, "values")), "values", bytes_in(row, "bytes"), cat(" ", text_in(row, "reason"))});
  }
  table.print(false);
  to_stdout("  optimizer state and inputs: f32\n\n");
}

std::string matmul_precision_text(const PlanDocument& report) {
  const PlanDocument& products = report.at("matmul_precision");
  const std::string& asked = text_in(products, "asked");
  if (asked == "highest") return {};
  if (!flag_in(products, "rounds")) {
    return cat("Products at --matmul-precision ", asked, " stay in f32: ", text_in(report, "device"),
               " has no matrix units that graft uses.");
  }
  std::string to;
  const auto add = [&](const char* rounds, const char* how) {
    if (flag_in(products, rounds)) to += (to.empty() ? "" : ",") + std::string(how);
  };
  add("to_f16", " to f16 for matrix units");
  add("to_bf16", " to bf16 for them beside bf16 operands");
  add("to_8_bits", " to 8 bits beside quantized weights");
  return cat("Products at --matmul-precision ", asked, ": f32 operands are rounded", to, "; sums in f32.");
}

void print_passes(const PlanDocument& report) {
  to_stdout("Passes over the forward graph:\n");
  Table table({{"", 20, Kind::name},
               {"", 5, Kind::number},
               {"", 2, Kind::word},
               {"", 5, Kind::number},
               {"", 5, Kind::word},
               {"", 0, Kind::name}},
              2);
  for (const PlanDocument& note : report.at("passes")) {
    table.row({text_in(note, "pass"), cat(count_in(note, "nodes_before")), "->", cat(count_in(note, "nodes_after")),
               "nodes", cat(" ", changes_text(note.at("changes")))});
  }
  table.print(false);
  to_stdout("\n");
}

void print_curve(const PlanDocument& report) {
  const PlanDocument& curve = report.at("curve");
  to_stdout("Memory against work, as results are computed again in the backward pass:\n");
  Table table({{"at least", 14, Kind::number},
               {"share", 8, Kind::number},
               {"more FLOPs", 14, Kind::number},
               {"more moved", 14, Kind::number},
               {"results", 10, Kind::optional}},
              2);
  const std::uint64_t whole = count_in(curve.at("points").front(), "bytes");
  for (const PlanDocument& point : curve.at("points")) {
    const std::uint64_t bytes = count_in(point, "bytes");
    table.row({bytes_text(bytes), number_text("%.1f%%", percent_of(bytes, whole)),
               number_text("%.2f%%", percent_of(count_in(point, "extra_flops"), count_in(curve, "flops"))),
               bytes_in(point, "extra_bytes_moved"), cat(count_in(point, "recomputed"))});
  }
  table.print();
}

void print_time(const PlanDocument& report, const char* what) {
  const PlanDocument& time = report.at("time");
  const auto ms = [](const PlanDocument& of, const char* name) { return 1e3 * number_in(of, name); };
  to_stdout("By the figures of %s %s takes about %.3g ms: arithmetic %.3g, memory %.3g, dispatches %.3g.\n%s\n",
            text_in(time, "device").c_str(), what, ms(time, "seconds"), ms(time, "arithmetic_s"), ms(time, "memory_s"),
            ms(time, "dispatching_s"), text_in(time, "error").c_str());
  to_stdout("\n");
  Table table({{"longest nodes", 44, Kind::name},
               {"op", 20, Kind::name},
               {"ms", 10, Kind::number},
               {"share", 7, Kind::number},
               {" most of it", 0, Kind::word}});
  const PlanDocument& nodes = time.at("nodes");
  for (std::size_t i = 0; i < std::min(nodes.size(), kNodesInTable); ++i) {
    const PlanDocument& node = nodes[i];
    const double arithmetic = number_in(node, "arithmetic_s"), memory = number_in(node, "memory_s");
    const bool handing = number_in(node, "dispatching_s") > std::max(arithmetic, memory);
    table.row({text_in(node, "name"), text_in(node, "op"), number_text("%.3g", ms(node, "seconds")),
               number_text("%.1f%%", 100 * number_in(node, "seconds") / number_in(time, "seconds")),
               handing               ? " dispatches"
               : memory > arithmetic ? " memory"
                                     : " arithmetic"});
  }
  table.print();
}

PlanDocument plan_json(PlanDocument report, const std::string& path) {
  for (const char* name : {"to_f16", "to_bf16", "to_8_bits"}) report.at("matmul_precision").erase(name);
  for (PlanDocument& plan : report.at("plans")) {
    for (const char* name : {"bytes_moved", "peak", "merged"}) plan.erase(name);
    for (PlanDocument& node : plan.at("nodes")) node.erase("parts");
    for (PlanDocument& value : plan.at("values")) {
      for (const char* name : {"storage", "saved"}) value.erase(name);
    }
  }
  PlanDocument all = {{"model", path}};
  for (auto&& item : report.items()) all[item.key()] = std::move(item.value());
  return all;
}

}  // namespace graft::cli
