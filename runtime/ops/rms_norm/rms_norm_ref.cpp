#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::rms_norm {
namespace {

struct Rows {
  std::size_t count = 1;
  std::size_t columns = 1;
};

Rows rows_of(const RefContext& c) {
  const auto& dims = c.in_dims(0);
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  Rows rows;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    (static_cast<std::int64_t>(i) < axis ? rows.count : rows.columns) *= static_cast<std::size_t>(dims[i]);
  }
  return rows;
}

double scale_at(const RefContext& c, std::size_t column) {
  return c.has(1) ? c.in(1)[column] + (c.attrs().flag("add_unit") ? 1 : 0) : 1;
}

}  // namespace

void ref_rms_norm(RefContext& c) {
  const Rows rows = rows_of(c);
  for (std::size_t r = 0; r < rows.count; ++r) {
    const auto x = c.in(0).subspan(r * rows.columns, rows.columns);
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(rows.columns) + c.attrs().number("epsilon"));
    c.out(1)[r] = rstd;
    for (std::size_t i = 0; i < rows.columns; ++i) c.out()[r * rows.columns + i] = x[i] * rstd * scale_at(c, i);
  }
}

void ref_rms_norm_grad(RefContext& c) {
  const Rows rows = rows_of(c);
  const bool scale_gradient = c.has(1) && c.attrs().flag("scale_gradient");
  for (std::size_t r = 0; r < rows.count; ++r) {
    const auto x = c.in(0).subspan(r * rows.columns, rows.columns);
    const auto dy = c.in(3).subspan(r * rows.columns, rows.columns);
    const double rstd = c.in(2)[r];
    double along = 0;
    for (std::size_t i = 0; i < rows.columns; ++i) along += dy[i] * scale_at(c, i) * x[i] * rstd;
    along /= static_cast<double>(rows.columns);
    for (std::size_t i = 0; i < rows.columns; ++i) {
      c.out()[r * rows.columns + i] = rstd * (dy[i] * scale_at(c, i) - x[i] * rstd * along);
      if (scale_gradient) c.out(1)[i] += dy[i] * x[i] * rstd;
    }
  }
}

}  // namespace graft::ops::rms_norm
