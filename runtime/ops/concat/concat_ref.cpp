#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::concat {

void ref_concat(RefContext& c) {
  const auto rank = static_cast<std::int64_t>(c.out_dims().size());
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += rank;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    ref_for_each(c.in_dims(i), [&](std::int64_t flat, RefIndex index) {
      index[axis] += offset;
      c.out()[ref_flatten(index, c.out_dims())] = c.in(i)[flat];
    });
    offset += c.in_dims(i)[axis];
  }
}

}  // namespace graft::ops::concat
