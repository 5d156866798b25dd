// Pictures as SVG text: a small writer, and the loss curve. The memory map is in svg_memory.h.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace graft::cli {

/// Appends shapes; text() closes the document. Coordinates are pixels, y down.
class Svg {
 public:
  Svg(double width, double height, const std::string& title);
  void rect(double x, double y, double w, double h, const std::string& fill, const std::string& tip = {},
            const std::string& extra = {});
  void line(double x1, double y1, double x2, double y2, const std::string& stroke, double width = 1,
            const std::string& extra = {});
  void path(const std::vector<std::pair<double, double>>& points, const std::string& stroke, double width,
            const std::string& extra = {});
  /// anchor: start, middle or end.
  void text(double x, double y, const std::string& content, const std::string& anchor = "start", int size = 12,
            const std::string& fill = "#333", const std::string& extra = {});
  std::string finish();

 private:
  std::ostringstream out_;
};

std::string escape_xml(const std::string& text);

/// 1, 2 or 5 times a power of ten, so that `range` holds about `count` of them.
double nice_step(double range, int count);

struct CurvePoint {
  double step = 0;
  double value = 0;
};

/// The training loss by step (thin) with its running mean (thick), and held-out losses as dots.
std::string loss_svg(const std::string& title, const std::vector<CurvePoint>& train,
                     const std::vector<CurvePoint>& held_out, const std::string& caption);

}  // namespace graft::cli
