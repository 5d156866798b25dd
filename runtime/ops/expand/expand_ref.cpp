#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::expand {

void ref_expand(RefContext& c) {
  const auto& in_dims = c.in_dims(0);
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    RefIndex from(index.end() - static_cast<std::ptrdiff_t>(in_dims.size()), index.end());
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (in_dims[axis] == 1) from[axis] = 0;
    }
    c.out()[flat] = c.in(0)[ref_flatten(from, in_dims)];
  });
}

}  // namespace graft::ops::expand
