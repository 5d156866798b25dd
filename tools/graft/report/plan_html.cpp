#include <sstream>

#include "tools/common/options.h"
#include "tools/graft/report/plan_layers.h"
#include "tools/graft/report/plan_report.h"
#include "tools/graft/report/svg_memory.h"

namespace graft::cli {
namespace {

constexpr const char* kStyle =
    "body{font-family:system-ui,sans-serif;margin:24px;color:#222}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:3px 12px;text-align:right;border-bottom:1px solid #e5e5e5}td:first-child,th:first-child,"
    "td:nth-child(2),th:nth-child(2){text-align:left}tr.again td:first-child{color:#2f6b9a}"
    "svg rect:hover{stroke:#111;stroke-width:1.5}";

void cell(std::ostringstream& out, const std::string& text) { out << "<td>" << escape_xml(text) << "</td>"; }

}  // namespace

std::string plan_html(const std::string& title, const std::vector<std::string>& reasons, const PlanDocument& plan,
                      const CurvePicture& curve) {
  std::ostringstream out;
  out << "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>" << escape_xml(title) << "</title><style>"
      << kStyle << "</style></head><body>\n";
  for (const std::string& reason : reasons) out << "<p>" << escape_xml(reason) << "</p>\n";
  out << memory_svg(title, plan, curve);
  out << "<h3>Layers</h3>\n<table><tr><th>layer</th><th>op</th><th>saved</th><th>forward FLOP</th><th>backward "
         "FLOP</th>"
         "<th>moved</th></tr>\n";
  for (const LayerRow& row : layer_rows(plan)) {
    out << (row.recomputed ? "<tr class=\"again\">" : "<tr>");
    cell(out, row.name + (row.recomputed ? " (again)" : ""));
    cell(out, row.op);
    cell(out, bytes_text(row.saved_bytes));
    cell(out, si_text(static_cast<double>(row.forward_flops)));
    cell(out, si_text(static_cast<double>(row.backward_flops)));
    cell(out, bytes_text(row.moved_bytes));
    out << "</tr>\n";
  }
  out << "</table></body></html>\n";
  return out.str();
}

}  // namespace graft::cli
