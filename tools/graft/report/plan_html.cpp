#include <sstream>

#include "tools/common/options.h"
#include "tools/graft/report/plan_layers.h"
#include "tools/graft/report/plan_report.h"
#include "tools/graft/report/svg_memory.h"

namespace graft::cli {
namespace {

// The picture has the colors of a light page; the rules of a dark one go before its attributes. What is wider than the
// window scrolls within its own frame.
constexpr const char* kStyle =
    "*{box-sizing:border-box}body{font:15px/1.45 system-ui,sans-serif;max-width:1240px;margin:0 auto;padding:20px;"
    "background:#f6f7f8;color:#1c2126}p{overflow-wrap:anywhere}h2{font-size:17px;margin:28px 0 10px}"
    ".panel{background:#fff;border:1px solid #dfe3e7;border-radius:8px;padding:12px 14px;overflow-x:auto}"
    ".panel:focus-visible{outline:2px solid #1f6fb2}"
    ".panel svg{display:block;width:100%;min-width:860px;height:auto}"
    "table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}"
    "td,th{padding:4px 12px;text-align:right;border-bottom:1px solid #dfe3e7}th{font-weight:500;color:#59626b}"
    "td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){text-align:left}"
    "td,th{white-space:nowrap}td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:150px}tr.again "
    "td:first-child{color:#2f6b9a}"
    "svg rect:hover{stroke:#111;stroke-width:1.5}"
    "@media(max-width:640px){body{padding:12px}.panel{padding:10px}td,th{padding:4px 8px}}"
    "@media(prefers-color-scheme:dark){body{background:#121518;color:#e5e8eb}"
    ".panel{background:#1a1e22;border-color:#333a41}td,th{border-color:#333a41}th{color:#9ba6b0}"
    "tr.again td:first-child{color:#74b7f4}svg rect:hover{stroke:#fff}"
    "svg rect[fill=\"#fff\"]{fill:#1a1e22}svg rect[fill=\"#f6f6f4\"],svg rect[fill=\"#eeeeee\"]{fill:#262c32}"
    "svg rect[fill=\"#f3ece2\"]{fill:#2b261f}svg rect[fill=\"#d8e6f2\"]{fill:#22303d}"
    "svg text[fill=\"#111\"],svg text[fill=\"#222\"],svg text[fill=\"#333\"]{fill:#e5e8eb}"
    "svg text[fill=\"#444\"],svg text[fill=\"#555\"],svg text[fill=\"#666\"]{fill:#9ba6b0}"
    "svg text[fill=\"#b3261e\"]{fill:#ff8a80}svg text[fill=\"#2f6b9a\"]{fill:#74b7f4}"
    "svg [stroke=\"#222\"]{stroke:#e5e8eb}svg [stroke=\"#b3261e\"]{stroke:#ff8a80}svg "
    "[stroke=\"#2f6b9a\"]{stroke:#74b7f4}"
    "svg [stroke=\"#dddddd\"],svg [stroke=\"#ccc\"]{stroke:#333a41}}";

void cell(std::ostringstream& out, const std::string& text) { out << "<td>" << escape_xml(text) << "</td>"; }

}  // namespace

std::string plan_html(const std::string& title, const std::vector<std::string>& reasons, const PlanDocument& plan,
                      const CurvePicture& curve) {
  std::ostringstream out;
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><title>"
      << escape_xml(title) << "</title><style>" << kStyle << "</style></head><body>\n";
  for (const std::string& reason : reasons) out << "<p>" << escape_xml(reason) << "</p>\n";
  out << "<div class=\"panel\" role=\"region\" tabindex=\"0\" aria-label=\"Memory map\">"
      << memory_svg(title, plan, curve) << "</div>\n";
  out << "<h2>Layers</h2>\n<div class=\"panel\" role=\"region\" tabindex=\"0\" aria-label=\"Layers\"><table><tr>"
         "<th scope=\"col\">layer</th><th scope=\"col\">op</th><th scope=\"col\">saved</th>"
         "<th scope=\"col\">forward FLOP</th><th scope=\"col\">backward FLOP</th><th scope=\"col\">moved</th></tr>\n";
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
  out << "</table></div></body></html>\n";
  return out.str();
}

}  // namespace graft::cli
