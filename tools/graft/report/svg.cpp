#include "tools/graft/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace graft::cli {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", std::abs(value) < 1e-12 ? 0.0 : value);
  return text;
}

}  // namespace

std::string escape_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

double nice_step(double range, int count) {
  const double rough = std::max(range, 1e-12) / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

Svg::Svg(double width, double height, const std::string& title) {
  out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height << "\" width=\"" << width
       << "\" height=\"" << height << "\" font-family=\"system-ui, sans-serif\">\n<title>" << escape_xml(title)
       << "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

void Svg::rect(double x, double y, double w, double h, const std::string& fill, const std::string& tip,
               const std::string& extra) {
  out_ << "<rect x=\"" << number(x) << "\" y=\"" << number(y) << "\" width=\"" << number(w) << "\" height=\""
       << number(h) << "\" fill=\"" << fill << "\" " << extra;
  if (tip.empty()) {
    out_ << "/>\n";
  } else {
    out_ << "><title>" << escape_xml(tip) << "</title></rect>\n";
  }
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& stroke, double width,
               const std::string& extra) {
  out_ << "<line x1=\"" << number(x1) << "\" y1=\"" << number(y1) << "\" x2=\"" << number(x2) << "\" y2=\""
       << number(y2) << "\" stroke=\"" << stroke << "\" stroke-width=\"" << number(width) << "\" " << extra << "/>\n";
}

void Svg::path(const std::vector<std::pair<double, double>>& points, const std::string& stroke, double width,
               const std::string& extra) {
  out_ << "<polyline fill=\"none\" stroke-linejoin=\"round\" stroke=\"" << stroke << "\" stroke-width=\""
       << number(width) << "\" " << extra << " points=\"";
  for (const auto& [x, y] : points) out_ << number(x) << ',' << number(y) << ' ';
  out_ << "\"/>\n";
}

void Svg::text(double x, double y, const std::string& content, const std::string& anchor, int size,
               const std::string& fill, const std::string& extra) {
  out_ << "<text x=\"" << number(x) << "\" y=\"" << number(y) << "\" text-anchor=\"" << anchor << "\" font-size=\""
       << size << "\" fill=\"" << fill << "\" " << extra << ">" << escape_xml(content) << "</text>\n";
}

std::string Svg::finish() { return out_.str() + "</svg>\n"; }

std::string loss_svg(const std::string& title, const std::vector<CurvePoint>& train,
                     const std::vector<CurvePoint>& held_out, const std::string& caption) {
  constexpr double kWidth = 860, kHeight = 440, kLeft = 64, kRight = 24, kTop = 56, kBottom = 64;
  double top = 1e-6;
  double last = 1;
  for (const auto* points : {&train, &held_out}) {
    for (const CurvePoint& p : *points) {
      if (std::isfinite(p.value)) top = std::max(top, p.value);
      last = std::max(last, p.step);
    }
  }
  const double y_step = nice_step(top, 5);
  top = std::ceil(top / y_step) * y_step;
  const auto px = [&](double step) { return kLeft + step / last * (kWidth - kLeft - kRight); };
  const auto py = [&](double value) { return kHeight - kBottom - value / top * (kHeight - kTop - kBottom); };

  Svg svg(kWidth, kHeight, title);
  svg.text(kLeft, 28, title, "start", 16, "#111", "font-weight=\"600\"");
  svg.text(kLeft, 46, caption, "start", 12, "#666");
  for (double v = 0; v <= top * 1.0001; v += y_step) {
    svg.line(kLeft, py(v), kWidth - kRight, py(v), "#e6e6e6");
    svg.text(kLeft - 8, py(v) + 4, tick_text(v), "end");
  }
  const double x_step = std::max(1.0, nice_step(last, 8));
  for (double v = 0; v <= last * 1.0001; v += x_step) {
    svg.line(px(v), kHeight - kBottom, px(v), kHeight - kBottom + 5, "#999");
    svg.text(px(v), kHeight - kBottom + 20, tick_text(v), "middle");
  }
  svg.line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#999");
  svg.text((kLeft + kWidth - kRight) / 2, kHeight - 22, "step", "middle");
  svg.text(18, (kTop + kHeight - kBottom) / 2, "loss", "middle", 12, "#333",
           "transform=\"rotate(-90 18 " + number((kTop + kHeight - kBottom) / 2) + ")\"");

  std::vector<std::pair<double, double>> raw;
  std::vector<std::pair<double, double>> smooth;
  const double rate = std::clamp(20.0 / static_cast<double>(train.size() + 1), 0.05, 0.5);
  double mean = 0;
  double weight = 0;
  for (const CurvePoint& p : train) {
    if (!std::isfinite(p.value)) continue;
    raw.emplace_back(px(p.step), py(p.value));
    mean += rate * (p.value - mean);  // exponential, corrected for its start at zero
    weight += rate * (1 - weight);
    smooth.emplace_back(px(p.step), py(mean / weight));
  }
  svg.path(raw, "#9ec5e8", 1, "opacity=\"0.8\"");
  svg.path(smooth, "#1f6fb2", 2.2);
  for (const CurvePoint& p : held_out) {
    svg.rect(px(p.step) - 4, py(p.value) - 4, 8, 8, "#d9622b", "held-out loss " + tick_text(p.value), "rx=\"4\"");
  }
  double key = kWidth - kRight - 330;
  svg.line(key, 40, key + 22, 40, "#9ec5e8", 2);
  svg.text(key + 28, 44, "each step");
  svg.line(key + 104, 40, key + 126, 40, "#1f6fb2", 2.5);
  svg.text(key + 132, 44, "running mean");
  if (!held_out.empty()) {
    svg.rect(key + 232, 36, 8, 8, "#d9622b", {}, "rx=\"4\"");
    svg.text(key + 246, 44, "held out");
  }
  return svg.finish();
}

}  // namespace graft::cli
