#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::pad {
namespace {

/// Where an element of the padded tensor comes from; false where that is the constant.
bool source(const RefContext& c, RefIndex& index, const std::vector<std::int64_t>& whole) {
  const Ints pads = c.attrs().integers("pads");
  const std::string mode = c.attrs().text("mode");
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    std::int64_t i = index[axis] - pads[axis];
    const std::int64_t last = whole[axis] - 1;
    if (i < 0 || i > last) {
      if (mode == "constant") return false;
      if (mode == "edge") i = i < 0 ? 0 : last;
      if (mode == "reflect") i = i < 0 ? -i : last - (i - last);
    }
    index[axis] = i;
  }
  return true;
}

}  // namespace

void ref_pad(RefContext& c) {
  ref_for_each(c.out_dims(), [&](std::int64_t flat, RefIndex index) {
    const bool inside = source(c, index, c.in_dims(0));
    c.out()[flat] = inside ? c.in(0)[ref_flatten(index, c.in_dims(0))] : c.attrs().number("value");
  });
}

void ref_pad_grad(RefContext& c) {
  ref_for_each(c.in_dims(0), [&](std::int64_t flat, RefIndex index) {
    if (source(c, index, c.out_dims())) c.out()[ref_flatten(index, c.out_dims())] += c.in(0)[flat];
  });
}

}  // namespace graft::ops::pad
