#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::top_k {

void ref_top_k(RefContext& c) {
  const std::vector<std::int64_t>& dims = c.in_dims(0);
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  const bool smallest = c.attrs().flag("smallest");
  std::vector<std::int64_t> lines = dims;
  lines[axis] = 1;
  ref_for_each(lines, [&](std::int64_t, RefIndex at) {
    const auto value = [&](std::int64_t i) {
      at[axis] = i;
      return c.in(0)[ref_flatten(at, dims)];
    };
    const auto before = [&](double a, double b) {  // larger, and not-a-number before all
      return std::isnan(a) ? !std::isnan(b) : a > b;
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(dims[axis]));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const double x = value(a), y = value(b);
      return smallest ? before(y, x) : before(x, y);
    });
    for (std::int64_t i = 0; i < c.out_dims()[axis]; ++i) {
      at[axis] = i;
      c.out()[ref_flatten(at, c.out_dims())] = static_cast<double>(order[static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace graft::ops::top_k
