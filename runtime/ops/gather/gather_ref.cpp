#include <cmath>

#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::gather {
namespace {

/// The element of `data` that element `index` of the gathered tensor is; -1 where the index is out of range.
std::int64_t source(const RefContext& c, const RefIndex& index, std::span<const double> indices,
                    const std::vector<std::int64_t>& indices_dims, const std::vector<std::int64_t>& data_dims) {
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(data_dims.size());
  const auto first = index.begin() + axis;
  const auto last = first + static_cast<std::ptrdiff_t>(indices_dims.size());
  auto picked = static_cast<std::int64_t>(indices[ref_flatten({first, last}, indices_dims)]);
  if (picked < 0) picked += data_dims[axis];
  if (picked < 0 || picked >= data_dims[axis]) return -1;
  RefIndex from(index.begin(), first);
  from.push_back(picked);
  from.insert(from.end(), last, index.end());
  return ref_flatten(from, data_dims);
}

}  // namespace

void ref_gather(RefContext& c) {
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    const std::int64_t from = source(c, index, c.in(1), c.in_dims(1), c.in_dims(0));
    const double miss = c.out_dtype() == DType::f32 ? std::nan("") : 0;
    c.out()[flat] = from < 0 ? miss : c.in(0)[from];
  });
}

void ref_gather_grad(RefContext& c) {
  ref_for_each(c.in_dims(1), [&](std::int64_t flat, const RefIndex& index) {
    const std::int64_t to = source(c, index, c.in(0), c.in_dims(0), c.out_dims());
    if (to >= 0) c.out()[to] += c.in(1)[flat];
  });
}

}  // namespace graft::ops::gather
