#include <vector>

#include "runtime/reference/ref_context.h"

namespace graft::ops::lora {

void ref_lora(RefContext& c) {
  const auto rank = static_cast<std::size_t>(c.in_dims(2)[0]);
  const auto from = static_cast<std::size_t>(c.in_dims(2)[1]);
  const auto to = static_cast<std::size_t>(c.in_dims(3)[0]);
  const double scale = c.attrs().number("scale");
  for (std::size_t row = 0; row < c.out().size() / std::max<std::size_t>(to, 1); ++row) {
    std::vector<double> low(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      for (std::size_t k = 0; k < from; ++k) low[i] += c.in(1)[row * from + k] * c.in(2)[i * from + k];
    }
    for (std::size_t n = 0; n < to; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i < rank; ++i) sum += low[i] * c.in(3)[n * rank + i];
      c.out()[row * to + n] = c.in(0)[row * to + n] + scale * sum;
    }
  }
}

}  // namespace graft::ops::lora
