#include <algorithm>

#include "runtime/reference/ref_context.h"

namespace graft::ops::compact {

void ref_compact(RefContext& c) {
  const std::span<const double> totals = c.in(0);
  for (std::size_t place = 0; place < totals.size(); ++place) {
    // By halving, so that it is also said what totals that fall give: a hostile file may hold them.
    const auto found = std::partition_point(totals.begin(), totals.end(),
                                            [&](double total) { return total <= static_cast<double>(place); });
    c.out()[place] = found == totals.end() ? 0 : static_cast<double>(found - totals.begin());
  }
}

}  // namespace graft::ops::compact
