#include "tools/convert/common/report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace graft::convert {
namespace {

struct Row {
  std::size_t count = 0;
  std::size_t forward = 0;
  std::size_t folded = 0;
  std::size_t gradient = 0;
  std::size_t unchecked = 0;
  std::set<std::string> remarks;
};

std::map<std::string, Row> by_op(const Report& report) {
  std::map<std::string, Row> rows;
  for (const auto& entry : report.entries) {
    Row& row = rows[entry.op];
    ++row.count;
    const bool runs = entry.fate == Report::Fate::converted;
    row.forward += runs;
    row.folded += entry.fate == Report::Fate::folded || entry.fate == Report::Fate::unused;
    row.unchecked += entry.fate == Report::Fate::unchecked;
    row.gradient += runs && entry.gradient;
    if (runs && !entry.gradient && !entry.gradient_reason.empty()) {
      row.remarks.insert("no gradient: " + entry.gradient_reason);
    }
    if (!entry.precision.empty()) row.remarks.insert(entry.precision);
  }
  return rows;
}

std::string share(std::size_t part, std::size_t whole, std::size_t folded) {
  if (whole == folded) return "folded";
  if (part == whole - folded) return "yes";
  return part == 0 ? "no" : std::to_string(part) + "/" + std::to_string(whole - folded);
}

/// By reason: how many, and the names of the first.
std::string constants_text(const std::vector<Report::Constant>& constants) {
  constexpr std::size_t kNamed = 4;
  std::map<std::string, std::vector<std::string>> names;
  for (const Report::Constant& constant : constants) names[constant.reason].push_back(constant.name);
  std::ostringstream out;
  for (const auto& [reason, all] : names) {
    out << "  " << reason << ": ";
    for (std::size_t i = 0; i < all.size() && i < kNamed; ++i) out << (i == 0 ? "" : ", ") << all[i];
    if (all.size() > kNamed) out << " and " << all.size() - kNamed << " more";
    out << "\n";
  }
  return out.str();
}

}  // namespace

const char* fate_name(Report::Fate fate) {
  switch (fate) {
    case Report::Fate::converted: return "converted";
    case Report::Fate::folded: return "folded";
    case Report::Fate::unused: return "unused";
    case Report::Fate::unsupported: return "unsupported";
    case Report::Fate::unchecked: return "unchecked";
  }
  return "";
}

std::string Report::text() const {
  const auto rows = by_op(*this);
  std::size_t width = 4;
  for (const auto& [op, row] : rows) width = std::max(width, op.size());
  std::ostringstream out;
  out << source << ": " << entries.size() << " nodes, " << parameters << " trainable tensors (" << parameter_elements
      << " elements)\n\n";
  out << std::left << std::setw(static_cast<int>(width)) << "op"
      << "  nodes  forward  gradient  remarks\n";
  for (const auto& [op, row] : rows) {
    out << std::left << std::setw(static_cast<int>(width)) << op << "  " << std::setw(5) << row.count << "  "
        << std::setw(7) << share(row.forward, row.count, row.folded) << "  " << std::setw(8)
        << share(row.gradient, row.count, row.folded);
    const char* separator = "  ";
    for (const auto& remark : row.remarks) {
      out << separator << remark;
      separator = "; ";
    }
    out << "\n";
  }
  if (!trained.empty()) {
    constexpr std::size_t kNamed = 6;
    out << "\nTrained: ";
    for (std::size_t i = 0; i < trained.size() && i < kNamed; ++i) out << (i == 0 ? "" : ", ") << trained[i].name;
    if (trained.size() > kNamed) out << " and " << trained.size() - kNamed << " more (--json lists them)";
    out << ".\n";
  }
  if (!constants.empty()) {
    out << "\nNot trained (" << constants.size() << "; --parameter PATTERN trains those, --train-buffers all):\n"
        << constants_text(constants);
  }
  if (!problems.empty()) out << "\nProblems (" << problems.size() << "):\n";
  for (const auto& problem : problems) out << "  " << problem << "\n";
  if (!notes.empty()) out << "\nNotes:\n";
  for (const auto& note : notes) out << "  " << note << "\n";
  out << (ok() ? "\nThe model converts.\n" : "\nThe model does not convert.\n");
  return out.str();
}

std::string Report::json() const {
  nlohmann::json root = {{"source", source},
                         {"convertible", ok()},
                         {"parameters", parameters},
                         {"parameter_elements", parameter_elements},
                         {"problems", problems},
                         {"notes", notes},
                         {"fix_inputs", fix_inputs},
                         {"nodes", nlohmann::json::array()},
                         {"trained", nlohmann::json::array()},
                         {"constants", nlohmann::json::array()}};
  for (const auto& [name, dims] : trained) root["trained"].push_back({{"name", name}, {"shape", dims}});
  for (const auto& [name, size, reason] : constants) {
    root["constants"].push_back({{"name", name}, {"elements", size}, {"reason", reason}});
  }
  for (const auto& entry : entries) {
    root["nodes"].push_back({{"node", entry.node},
                             {"op", entry.op},
                             {"fate", fate_name(entry.fate)},
                             {"reason", entry.reason},
                             {"gradient", entry.gradient},
                             {"gradient_reason", entry.gradient_reason},
                             {"precision", entry.precision}});
  }
  if (!blocks.empty()) root["blocks"] = nlohmann::json(errors_json(blocks));
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace graft::convert
