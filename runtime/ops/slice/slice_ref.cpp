#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::slice {
namespace {

/// The element of the whole tensor that an element of the slice is.
std::int64_t source(const RefContext& c, RefIndex index, const std::vector<std::int64_t>& whole) {
  const Ints starts = c.attrs().integers("starts");
  const Ints steps = c.attrs().integers("steps");
  for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] = starts[axis] + index[axis] * steps[axis];
  return ref_flatten(index, whole);
}

}  // namespace

void ref_slice(RefContext& c) {
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    c.out()[flat] = c.in(0)[source(c, index, c.in_dims(0))];
  });
}

void ref_slice_grad(RefContext& c) {
  ref_for_each(c.in_dims(0), [&](std::int64_t flat, const RefIndex& index) {
    c.out()[source(c, index, c.out_dims())] += c.in(0)[flat];
  });
}

}  // namespace graft::ops::slice
