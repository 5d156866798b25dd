// Resizing along one axis as ONNX defines it, as numbers: which source positions make each result, and by how much.
#pragma once

#include <string>
#include <vector>

#include "platform/base/status.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

struct AxisResize {
  std::int64_t in = 1, out = 1;
  double scale = 1;  ///< as given; out / in where sizes were
  double roi_start = 0, roi_end = 1;
};

struct Interpolation {
  enum class Mode { nearest, linear, cubic } mode = Mode::nearest;
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool antialias = false;
  bool exclude_outside = false;
};

/// Errors: an unknown mode.
Result<Interpolation> read_interpolation(NodeContext& c, bool old);

/// Where result `o` lies on the source axis.
double source_position(const Interpolation& how, const AxisResize& axis, std::int64_t o);
/// For results that tf_crop_and_resize fills with one number.
bool is_extrapolated(const Interpolation& how, const AxisResize& axis, std::int64_t o);

/// The source position of each result. Requires the mode nearest.
std::vector<std::int64_t> nearest_positions(const Interpolation& how, const AxisResize& axis);
/// [out, in]: result o is the sum of row o times the source. Rows of extrapolated results are zero.
std::vector<float> interpolation_matrix(const Interpolation& how, const AxisResize& axis);

/// An axis of which a size is a symbol.
struct OpenResize {
  Dim in, out;
  double scale = 0;  ///< as given, in 64ths of a whole; 0: what the sizes give once they are bound
};
/// The value resized along axis `place`.
Result<ValueId> resize_open_axis(NodeContext& c, ValueId x, std::size_t place, const Interpolation& how,
                                 const OpenResize& axis);

}  // namespace graft::convert
