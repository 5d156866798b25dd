#include "tools/graft/report/svg_memory.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "tools/common/text.h"
#include "tools/graft/report/svg.h"

namespace graft::cli {
namespace {

constexpr double kWidth = 1180, kHeight = 640, kPanels = 300;  // the panels lie below the map
constexpr double kLeft = 84, kRight = 270, kTop = 84, kBottom = 70;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

constexpr std::array<const char*, 8> kColours = {
    "#7a7f87",  // weights
    "#4c6a92",  // parameters
    "#d98b2b",  // gradients
    "#8b5fa8",  // optimizer
    "#4f9d69",  // activations
    "#c9b037",  // workspace
    "#9aa5b1",  // staging
    "#c0504d",  // step state
};

constexpr double kOutlinedHeight = 4;      // lower boxes would be outline alone
constexpr const char* kAgain = "#d8e6f2";  // the moments of second runs

/// Of a class of memory, by its place among a plan's.
const char* colour(const PlanDocument& plan, const std::string& name) {
  const PlanDocument& memory = plan.at("memory");
  const auto place = static_cast<std::size_t>(std::distance(memory.begin(), memory.find(name)));
  return kColours[std::min(place, kColours.size() - 1)];
}

struct Scale {
  double nodes;
  double bytes;
  double x(double position) const { return kLeft + position / nodes * kPlotWidth; }
  double y(double offset) const { return kTop + kPlotHeight - offset / bytes * kPlotHeight; }
};

// One box per storage: values that share memory are one block from the first use of any to the last of all.
struct Box {
  const PlanDocument* shown = nullptr;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::string names;
  bool saved = false;  ///< one of its values is kept for backward
};

std::map<std::uint64_t, Box> boxes_of(const PlanDocument& plan) {
  std::map<std::uint64_t, Box> boxes;
  for (const PlanDocument& value : plan.at("values")) {
    const std::uint64_t bytes = count_in(value, "bytes"), first = count_in(value, "first");
    if (text_in(value, "space") != "transient" || bytes == 0) continue;
    const auto [at, fresh] = boxes.try_emplace(count_in(value, "storage"));
    Box& box = at->second;
    if (fresh) box = {&value, first, count_in(value, "last"), count_in(value, "offset"), bytes, {}, false};
    box.first = std::min(box.first, first);
    box.last = std::max(box.last, count_in(value, "last"));
    box.bytes = std::max(box.bytes, bytes);
    box.saved = box.saved || flag_in(value, "saved");
    box.names += (box.names.empty() ? "" : ", ") + text_in(value, "name");
  }
  return boxes;
}

void draw_axes(Svg& svg, const PlanDocument& plan, const Scale& scale) {
  const PlanDocument& nodes = plan.at("nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!flag_in(nodes[i], "backward")) continue;
    svg.rect(scale.x(static_cast<double>(i)), kTop, kPlotWidth / scale.nodes + 0.5, kPlotHeight,
             flag_in(nodes[i], "recomputed") ? kAgain : "#f3ece2");
  }
  const double step = nice_step(scale.bytes / 1048576.0, 6) * 1048576.0;
  for (double v = 0; v <= scale.bytes; v += step) {
    svg.line(kLeft, scale.y(v), kLeft + kPlotWidth, scale.y(v), "#dddddd", 0.6);
    svg.text(kLeft - 8, scale.y(v) + 4, bytes_text(static_cast<unsigned long long>(v)), "end", 11, "#666");
  }
  svg.line(kLeft, kTop + kPlotHeight, kLeft + kPlotWidth, kTop + kPlotHeight, "#999");
  svg.text(kLeft + kPlotWidth / 2, kHeight - 14,
           "nodes in the order of execution (backward shaded); upwards: where in the arena a value lies", "middle", 12,
           "#444");
  const double tick = std::max(1.0, nice_step(scale.nodes, 10));
  for (double v = 0; v <= scale.nodes; v += tick) {
    svg.text(scale.x(v), kTop + kPlotHeight + 18, cat(static_cast<long>(v)), "middle", 11, "#666");
  }
}

bool is_backward(const PlanDocument& node) { return flag_in(node, "backward") || flag_in(node, "recomputed"); }

// Where the backward pass begins. A few of its nodes, of views and of weights alone, are free to run before: the place
// that leaves the fewest nodes on the wrong side.
std::size_t backward_begin(const PlanDocument& nodes, std::size_t end) {
  std::size_t best = 0;
  std::ptrdiff_t wrong = 0, fewest = 0;  // more than at the place 0
  for (std::size_t i = 0; i < end; ++i) {
    wrong += is_backward(nodes[i]) ? 1 : -1;
    if (wrong < fewest) fewest = wrong, best = i + 1;
  }
  return best;
}

// The passes by name. Updates that run as soon as their gradient is complete lie within the backward pass.
void draw_passes(Svg& svg, const PlanDocument& plan, const Scale& scale) {
  const PlanDocument& nodes = plan.at("nodes");
  std::size_t last = nodes.size();
  while (last > 0 && !is_backward(nodes[last - 1])) --last;
  const std::size_t first = last == 0 ? nodes.size() : backward_begin(nodes, last);
  const std::array<double, 4> ends = {0, static_cast<double>(first), static_cast<double>(std::max(first, last)),
                                      scale.nodes};
  constexpr std::array<const char*, 3> kNames = {"forward", "backward", "update"};
  constexpr double kRoom = 50, kLine = kTop + kPlotHeight + 22;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const double from = scale.x(ends[i]), to = scale.x(ends[i + 1]);
    if (to - from < kRoom) continue;
    svg.line(from + 2, kLine, to - 2, kLine, "#999");
    svg.text((from + to) / 2, kLine + 14, kNames[i], "middle", 12, "#111", "font-weight=\"600\"");
  }
}

void draw_boxes(Svg& svg, const PlanDocument& plan, const Scale& scale) {
  for (const auto& [storage, box] : boxes_of(plan)) {
    const double x = scale.x(box.first);
    const double w = std::max(1.0, scale.x(std::min<double>(box.last + 1.0, scale.nodes)) - x - 0.6);
    const double h = std::max(0.8, static_cast<double>(box.bytes) / scale.bytes * kPlotHeight - 0.4);
    const double y = scale.y(static_cast<double>(box.offset + box.bytes));
    const std::string tip = cat(box.names, "\n", bytes_text(box.bytes), ", nodes ", box.first, " to ", box.last,
                                box.saved ? "\nsaved for backward" : "");
    svg.rect(x, y, w, h, colour(plan, text_in(*box.shown, "class")), tip,
             !box.saved            ? "fill-opacity=\"0.6\""
             : h > kOutlinedHeight ? "fill-opacity=\"0.95\" stroke=\"#1c3d27\" stroke-width=\"0.8\""
                                   : "fill-opacity=\"0.95\"");
    if (w > 60 && h > 13) {
      const std::size_t fits = static_cast<std::size_t>((w - 8) / 6.2);
      std::string name = text_in(*box.shown, "name");
      if (name.size() > fits) name = name.substr(0, fits > 1 ? fits - 1 : 0) + "…";
      svg.text(x + 4, y + std::min(h - 3, 13.0), name, "start", 10, "#fff", "pointer-events=\"none\"");
    }
  }
}

void draw_live_line(Svg& svg, const PlanDocument& plan, const Scale& scale) {
  std::vector<std::pair<double, double>> points;
  const PlanDocument& nodes = plan.at("nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double y = scale.y(number_in(nodes[i], "live_bytes"));
    points.emplace_back(scale.x(static_cast<double>(i)), y);
    points.emplace_back(scale.x(static_cast<double>(i) + 1), y);
  }
  svg.path(points, "#222", 1.2, "stroke-dasharray=\"4 2\" opacity=\"0.8\"");
  if (!plan.contains("peak")) return;
  const double x = scale.x(number_in(plan, "peak") + 0.5);
  svg.line(x, kTop - 6, x, kTop + kPlotHeight, "#b3261e", 1.4);
  const bool right = x > kLeft + kPlotWidth * 0.6;
  svg.text(right ? x - 6 : x + 6, kTop - 10,
           cat("peak ", bytes_text(count_in(plan, "lower_bound")), " at ", text_in(plan, "peak_node")),
           right ? "end" : "start", 12, "#b3261e");
}

void draw_classes(Svg& svg, const PlanDocument& plan) {
  const double left = kWidth - kRight + 28;
  double y = kTop;
  svg.text(left, y, "memory by class", "start", 13, "#111", "font-weight=\"600\"");
  const double total = std::max<double>(1, number_in(plan, "total"));
  for (const auto& [name, value] : plan.at("memory").items()) {
    const auto bytes = value.get<std::uint64_t>();
    y += 34;
    svg.text(left, y, name, "start", 12, "#333");
    svg.text(kWidth - 24, y, bytes_text(bytes), "end", 12, "#333");
    svg.rect(left, y + 5, kWidth - 24 - left, 7, "#eeeeee");
    svg.rect(left, y + 5, std::max(bytes ? 1.0 : 0.0, static_cast<double>(bytes) / total * (kWidth - 24 - left)), 7,
             colour(plan, name));
  }
  svg.line(left, y + 24, kWidth - 24, y + 24, "#ccc");
  svg.text(left, y + 42, "total", "start", 12, "#111", "font-weight=\"600\"");
  svg.text(kWidth - 24, y + 42, bytes_text(count_in(plan, "total")), "end", 12, "#111", "font-weight=\"600\"");
  svg.text(left, y + 76, cat(plan.at("saved").size(), " values saved for backward"), "start", 12, "#333");
  if (!plan.at("recomputed").empty()) {
    svg.text(left, y + 134, cat(plan.at("recomputed").size(), " results computed again"), "start", 12, "#333");
    svg.rect(left, y + 142, 14, 10, kAgain);
    svg.text(left + 20, y + 151, "second runs", "start", 11, "#555");
  }
  svg.rect(left, y + 84, 14, 10, "#4f9d69", {}, "stroke=\"#1c3d27\" stroke-width=\"0.8\"");
  svg.text(left + 20, y + 93, "strong: saved; faint: soon used up", "start", 11, "#555");
  svg.line(left, y + 110, left + 14, y + 110, "#222", 1.2, "stroke-dasharray=\"4 2\"");
  svg.text(left + 20, y + 114, "dashed: bytes in use then", "start", 11, "#555");
}

}  // namespace

std::string memory_svg(const std::string& title, const PlanDocument& plan, const CurvePicture& curve) {
  const bool drawn = !curve.points.empty();
  Svg svg(kWidth, kHeight + kPanels, title);
  svg.text(kLeft, 30, title, "start", 17, "#111", "font-weight=\"600\"");
  svg.text(kLeft, 50,
           cat(plan.at("nodes").size(), " nodes. The arena, for values that come and go, has ",
               bytes_text(count_in(plan, "arena")), "; no layout needs less than the ",
               bytes_text(count_in(plan, "lower_bound")), " in use at the peak"),
           "start", 12, "#666");
  const Scale scale{std::max<double>(1, static_cast<double>(plan.at("nodes").size())),
                    std::max<double>(1, number_in(plan, "arena")) * 1.02};
  draw_axes(svg, plan, scale);
  draw_passes(svg, plan, scale);
  draw_boxes(svg, plan, scale);
  draw_live_line(svg, plan, scale);
  draw_classes(svg, plan);
  const double y = kHeight + 8;
  constexpr double kCurveWidth = 500, kGap = 60;
  const double left = drawn ? kLeft + kCurveWidth + kGap : kLeft;
  if (drawn) draw_curve(svg, {kLeft - 40, y, kCurveWidth, kPanels - 24}, curve);
  draw_layers(svg, {left, y, kWidth - 24 - left, kPanels - 24}, plan);
  return svg.finish();
}

}  // namespace graft::cli
