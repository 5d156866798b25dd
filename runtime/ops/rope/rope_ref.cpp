#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::rope {

void ref_rope(RefContext& c) {
  const auto& dims = c.in_dims(0);
  const auto dim = static_cast<std::size_t>(dims.back());
  const auto heads = static_cast<std::size_t>(dims[dims.size() - 2]);
  const auto sequence = static_cast<std::size_t>(dims[dims.size() - 3]);
  const auto given = static_cast<std::size_t>(c.attrs().integer("rotated"));
  const std::size_t half = (given == 0 ? dim : given) / 2;
  const bool interleaved = c.attrs().flag("interleaved");
  const double direction = c.attrs().flag("inverse") ? -1 : 1;
  const double magnitude = c.attrs().number("magnitude");
  const std::uint32_t offset = c.attrs().flag("from_step") ? c.step_state().position : 0;
  for (std::size_t row = 0; dim != 0 && row * dim < c.in(0).size(); ++row) {
    const std::size_t token = row / heads;
    const double position = c.has(1) ? c.in(1)[token % c.in(1).size()] : static_cast<double>(token % sequence + offset);
    const auto x = c.in(0).subspan(row * dim, dim);
    const auto y = c.out().subspan(row * dim, dim);
    for (std::size_t i = 2 * half; i < dim; ++i) y[i] = x[i];
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency =
          c.has(2) ? c.in(2)[i]
                   : std::pow(c.attrs().number("theta"), -static_cast<double>(i) / static_cast<double>(half));
      const double cosine = magnitude * std::cos(position * frequency);
      const double sine = magnitude * direction * std::sin(position * frequency);
      const std::size_t a = interleaved ? 2 * i : i;
      const std::size_t b = interleaved ? 2 * i + 1 : i + half;
      y[a] = x[a] * cosine - x[b] * sine;
      y[b] = x[b] * cosine + x[a] * sine;
    }
  }
}

}  // namespace graft::ops::rope
