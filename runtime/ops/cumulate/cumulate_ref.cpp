#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::cumulate {
namespace {

void cumulate(RefContext& c, bool product) {
  const std::vector<std::int64_t>& dims = c.in_dims(0);
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  const bool exclusive = c.attrs().flag("exclusive"), reverse = c.attrs().flag("reverse");
  std::vector<std::int64_t> lines = dims;
  lines[axis] = 1;
  ref_for_each(lines, [&](std::int64_t, RefIndex at) {
    double total = product ? 1 : 0;
    for (std::int64_t i = 0; i < dims[axis]; ++i) {
      at[axis] = reverse ? dims[axis] - 1 - i : i;
      const std::int64_t flat = ref_flatten(at, dims);
      const double before = total;
      total = product ? total * c.in(0)[flat] : total + c.in(0)[flat];
      c.out()[flat] = exclusive ? before : total;
    }
  });
}

}  // namespace

void ref_cumsum(RefContext& c) { cumulate(c, false); }
void ref_cumprod(RefContext& c) { cumulate(c, true); }

}  // namespace graft::ops::cumulate
