#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::metric {

void ref_topk_correct(RefContext& c) {
  const auto columns = static_cast<std::size_t>(c.in_dims(0).back());
  double hits = 0;
  for (std::size_t r = 0; r < c.in(1).size(); ++r) {
    const double label = c.in(1)[r];
    const bool valid = label >= 0 && label < static_cast<double>(columns);
    if (!valid || label == static_cast<double>(c.attrs().integer("ignore_index"))) continue;
    const auto x = c.in(0).subspan(r * columns, columns);
    const auto wanted = static_cast<std::size_t>(label);
    if (std::isnan(x[wanted])) continue;
    std::int64_t before = 0;
    for (std::size_t k = 0; k < columns; ++k) {
      before += std::isnan(x[k]) || x[k] > x[wanted] || (x[k] == x[wanted] && k < wanted) ? 1 : 0;
    }
    hits += before < c.attrs().integer("k") ? 1 : 0;
  }
  c.out()[0] = hits;
}

}  // namespace graft::ops::metric
