#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::transpose {

void ref_transpose(RefContext& c) {
  const Ints perm = c.attrs().integers("perm");
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    RefIndex from(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i) from[static_cast<std::size_t>(perm[i])] = index[i];
    c.out()[flat] = c.in(0)[ref_flatten(from, c.in_dims(0))];
  });
}

}  // namespace graft::ops::transpose
