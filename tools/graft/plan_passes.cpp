#include "tools/graft/plan_passes.h"

#include <cstdio>

#include "runtime/core/op_def.h"
#include "tools/common/status.h"

namespace graft::cli {
namespace {

/// "+12 gelu, -12 erf"; what came first.
std::string changes_text(const passes::PassNote& note) {
  std::string more, fewer;
  for (const auto& [op, count] : note.changes) {
    std::string& list = count > 0 ? more : fewer;
    list += cat(list.empty() ? "" : ", ", count > 0 ? "+" : "", count, " ", op_name(op));
  }
  return cat(more, more.empty() || fewer.empty() ? "" : ", ", fewer);
}

}  // namespace

void print_passes(const std::vector<passes::PassNote>& notes) {
  std::printf("Passes over the forward graph:\n");
  for (const passes::PassNote& note : notes) {
    std::printf("  %-20s %5zu -> %5zu nodes  %s\n", std::string(note.pass).c_str(), note.nodes_before, note.nodes_after,
                changes_text(note).c_str());
  }
  std::printf("\n");
}

nlohmann::ordered_json passes_json(const std::vector<passes::PassNote>& notes) {
  auto all = nlohmann::ordered_json::array();
  for (const passes::PassNote& note : notes) {
    auto changes = nlohmann::ordered_json::object();
    for (const auto& [op, count] : note.changes) changes[std::string(op_name(op))] = count;
    all.push_back({{"pass", note.pass},
                   {"nodes_before", note.nodes_before},
                   {"nodes_after", note.nodes_after},
                   {"changes", std::move(changes)}});
  }
  return all;
}

}  // namespace graft::cli
