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

/// The element of a row of the tables together; -1 where there is none.
std::int64_t place_in_tables(const RefContext& c, const RefIndex& index, std::int64_t all_rows, std::int64_t columns,
                             std::size_t indices) {
  const RefIndex of(index.begin(), index.end() - 1);
  auto picked = static_cast<std::int64_t>(c.in(indices)[ref_flatten(of, c.in_dims(indices))]);
  if (picked < 0) picked += all_rows;
  return picked < 0 || picked >= all_rows ? -1 : picked * columns + index.back();
}

}  // namespace

void ref_gather(RefContext& c) {
  if (c.inputs() > 2) {
    const std::int64_t first = c.attrs().integer("first_row");
    const std::int64_t columns = c.in_dims(2)[1];
    ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
      const std::int64_t from = place_in_tables(c, index, first + c.in_dims(2)[0], columns, 1);
      const std::int64_t behind = from - first * columns;
      c.out()[flat] = from < 0 ? std::nan("") : behind < 0 ? c.in(0)[from] : c.in(2)[behind];
    });
    return;
  }
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    const std::int64_t from = source(c, index, c.in(1), c.in_dims(1), c.in_dims(0));
    const double miss = c.out_dtype() == DType::f32 ? std::nan("") : 0;
    c.out()[flat] = from < 0 ? miss : c.in(0)[from];
  });
}

void ref_gather_grad(RefContext& c) {
  if (const std::int64_t first = c.attrs().integer("first_row"); first != 0) {
    const std::int64_t columns = c.out_dims()[1];
    ref_for_each(c.in_dims(1), [&](std::int64_t flat, const RefIndex& index) {
      const std::int64_t to = place_in_tables(c, index, first + c.out_dims()[0], columns, 0) - first * columns;
      if (to >= 0) c.out()[to] += c.in(1)[flat];
    });
    return;
  }
  ref_for_each(c.in_dims(1), [&](std::int64_t flat, const RefIndex& index) {
    const std::int64_t to = source(c, index, c.in(0), c.in_dims(0), c.out_dims());
    if (to >= 0) c.out()[to] += c.in(1)[flat];
  });
}

}  // namespace graft::ops::gather
