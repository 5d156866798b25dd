#include "tools/graft/report/svg_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/options.h"
#include "tools/graft/report/plan_layers.h"

namespace graft::cli {
namespace {

constexpr const char* kCurveColor = "#2f6b9a";
constexpr const char* kMark = "#b3261e";

double share(std::uint64_t part, std::uint64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

std::string percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", value);
  return text;
}

}  // namespace

void draw_curve(Svg& svg, const Panel& panel, const CurvePicture& curve) {
  constexpr double kLeft = 52, kBottom = 40, kTop = 28;
  svg.text(panel.x, panel.y + 12, "memory against work: what computing results again would save", "start", 13, "#111",
           "font-weight=\"600\"");
  if (curve.points.empty()) return;
  const double whole = static_cast<double>(curve.points.front().bytes);
  // This plan may take more than the curve says: the arena is not always packed without a gap.
  const double most =
      static_cast<double>(std::max({curve.budget, curve.points.front().bytes, curve.chosen_bytes})) * 1.04;
  const double least = static_cast<double>(curve.points.back().bytes);
  const double low = std::max(0.0, 1.2 * std::min(least, static_cast<double>(curve.chosen_bytes)) - 0.2 * most);
  double top = 1;
  for (const graft_plan_point& p : curve.points) top = std::max(top, share(p.extra_flops, curve.flops));
  top = std::max(top, share(curve.chosen_flops, curve.flops)) * 1.1;
  const double width = panel.width - kLeft, height = panel.height - kTop - kBottom;
  const auto px = [&](double bytes) { return panel.x + kLeft + (bytes - low) / (most - low) * width; };
  const auto py = [&](double more) { return panel.y + kTop + height - more / top * height; };
  const double y_step = nice_step(top, 4);
  for (double v = 0; v <= top; v += y_step) {
    svg.line(px(low), py(v), px(most), py(v), "#dddddd", 0.6);
    svg.text(px(low) - 6, py(v) + 4, percent(v), "end", 10, "#666");
  }
  const double x_step = nice_step((most - low) / 1048576.0, 5) * 1048576.0;
  for (double v = std::ceil(low / x_step) * x_step; v <= most; v += x_step) {
    svg.text(px(v), py(0) + 15, bytes_text(static_cast<unsigned long long>(v)), "middle", 10, "#666");
  }
  svg.text(px((low + most) / 2), panel.y + panel.height - 6, "memory of the run (vertical: more FLOPs)", "middle", 11,
           "#444");
  std::vector<std::pair<double, double>> line;
  for (const graft_plan_point& p : curve.points) {
    const double x = px(static_cast<double>(p.bytes));
    if (!line.empty()) line.emplace_back(x, line.back().second);
    line.emplace_back(x, py(share(p.extra_flops, curve.flops)));
  }
  svg.path(line, kCurveColor, 1.6);
  for (const graft_plan_point& p : curve.points) {
    const std::uint64_t bytes = p.bytes;
    svg.rect(px(static_cast<double>(bytes)) - 2.5, py(share(p.extra_flops, curve.flops)) - 2.5, 5, 5, kCurveColor,
             cat(bytes_text(bytes), " (", percent(100 * static_cast<double>(bytes) / whole), "), ",
                 percent(share(p.extra_flops, curve.flops)), " more FLOPs, ", p.recomputed, " results again"));
  }
  if (curve.budget != 0) {
    const double x = px(static_cast<double>(curve.budget));
    svg.line(x, py(top), x, py(0), kMark, 1.2, "stroke-dasharray=\"5 3\"");
    svg.text(x + 4, py(top) + 10, "budget", "start", 11, kMark);
  }
  const double x = px(static_cast<double>(curve.chosen_bytes)), y = py(share(curve.chosen_flops, curve.flops));
  svg.rect(x - 4.5, y - 4.5, 9, 9, "none", "this plan", "stroke=\"#b3261e\" stroke-width=\"1.8\"");
  svg.text(x, y - 9, "this plan", x > panel.x + panel.width - 40 ? "end" : "middle", 11, kMark);
}

void draw_layers(Svg& svg, const Panel& panel, const PlanDocument& plan) {
  std::vector<LayerRow> rows = repeated_layers(layer_rows(plan));
  std::stable_sort(rows.begin(), rows.end(), [](const LayerRow& a, const LayerRow& b) {
    return std::pair(a.saved_bytes, a.forward_flops + a.backward_flops) >
           std::pair(b.saved_bytes, b.forward_flops + b.backward_flops);
  });
  constexpr double kRow = 17;
  const auto fits = static_cast<std::size_t>(std::max(0.0, (panel.height - 48) / kRow));
  const std::size_t shown = std::min(rows.size(), fits);
  const double columns[] = {panel.x, panel.x + panel.width * 0.58, panel.x + panel.width * 0.72,
                            panel.x + panel.width * 0.86, panel.x + panel.width};
  svg.text(panel.x, panel.y + 12, cat("what holds the most, by layer (", shown, " of ", rows.size(), ")"), "start", 13,
           "#111", "font-weight=\"600\"");
  const char* titles[] = {"saved", "forward", "backward", "moved"};
  for (std::size_t i = 0; i < 4; ++i) svg.text(columns[i + 1], panel.y + 32, titles[i], "end", 10, "#666");
  for (std::size_t i = 0; i < shown; ++i) {
    const LayerRow& row = rows[i];
    const double y = panel.y + 50 + static_cast<double>(i) * kRow;
    if (i % 2 == 0) svg.rect(panel.x - 4, y - 12, panel.width + 8, kRow, "#f6f6f4");
    std::string name = row.name;
    const auto longest = static_cast<std::size_t>(panel.width * 0.44 / 6.2);
    if (name.size() > longest) name = "…" + name.substr(name.size() - longest + 1);
    svg.text(columns[0], y, name + (row.recomputed ? "  (again)" : ""), "start", 11,
             row.recomputed ? kCurveColor : "#222");
    svg.text(columns[1], y, bytes_text(row.saved_bytes), "end", 11);
    svg.text(columns[2], y, si_text(static_cast<double>(row.forward_flops)), "end", 11);
    svg.text(columns[3], y, si_text(static_cast<double>(row.backward_flops)), "end", 11);
    svg.text(columns[4], y, bytes_text(row.moved_bytes), "end", 11);
  }
}

}  // namespace graft::cli
