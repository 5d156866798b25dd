// The shapes of the digits: strokes of cubic Bezier curves in a unit box, x to the right, y down.
#pragma once

#include <span>

namespace graft::data {

struct StrokePoint {
  double x;
  double y;
};

/// A pen stroke: a start and three points for each cubic Bezier segment (1 + 3 n points).
struct Stroke {
  std::span<const StrokePoint> points;
};

/// A way to write a digit.
struct Glyph {
  std::span<const Stroke> strokes;
};

/// The ways to write `digit` (0 to 9); at least one.
std::span<const Glyph> digit_glyphs(int digit);

}  // namespace graft::data
