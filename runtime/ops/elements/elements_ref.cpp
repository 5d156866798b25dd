#include <cmath>
#include <limits>

#include "runtime/ops/elements/reductions.h"
#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::elements {
namespace {

std::size_t axis_of(const RefContext& c) {
  const std::int64_t axis = c.attrs().integer("axis");
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(c.in_dims(0).size()) : axis);
}

/// The index that belongs to `at`, an element of the picks; -1 where it is out of range.
std::int64_t index_at(const RefContext& c, const RefIndex& at, std::size_t axis) {
  RefIndex of = at;
  for (std::size_t i = axis + 1; i < of.size(); ++i) {
    if (c.in_dims(1)[i] == 1) of[i] = 0;
  }
  auto index = static_cast<std::int64_t>(c.in(1)[ref_flatten(of, c.in_dims(1))]);
  const std::int64_t size = c.in_dims(0)[axis];
  if (index < 0) index += size;
  return index < 0 || index >= size ? -1 : index;
}

double joined(Reduction reduction, double kept, double update) {
  switch (reduction) {
    case Reduction::add: return kept + update;
    case Reduction::mul: return kept * update;
    case Reduction::min: return std::isnan(kept) || update >= kept ? kept : update;
    case Reduction::max: return std::isnan(kept) || update <= kept ? kept : update;
    case Reduction::none: break;
  }
  return update;
}

}  // namespace

void ref_gather_elements(RefContext& c) {
  const std::size_t axis = axis_of(c);
  const bool zero = c.out_dtype() != DType::f32 || c.attrs().flag("zero_miss");
  ref_for_each(c.out_dims(), [&](std::int64_t flat, RefIndex at) {
    const std::int64_t index = index_at(c, at, axis);
    at[axis] = index;
    c.out()[flat] = index >= 0 ? c.in(0)[ref_flatten(at, c.in_dims(0))] : zero ? 0 : std::nan("");
  });
}

void ref_scatter_elements(RefContext& c) {
  const std::size_t axis = axis_of(c);
  const Reduction reduction = reduction_of(c.attrs()).value();
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = c.in(0)[i];
  ref_for_each(c.in_dims(2), [&](std::int64_t flat, RefIndex at) {
    const std::int64_t index = index_at(c, at, axis);
    if (index < 0) return;
    at[axis] = index;
    double& kept = c.out()[ref_flatten(at, c.out_dims())];
    kept = joined(reduction, kept, c.in(2)[flat]);
  });
}

void ref_nd_index(RefContext& c) {
  const std::vector<std::int64_t> dims = c.attrs().shape("dims").values();
  const std::size_t size = dims.size();
  const std::vector<std::int64_t>& out = c.out_dims();
  const auto batches = static_cast<std::ptrdiff_t>(c.attrs().integer("batches"));
  const std::int64_t tuples = ref_count({out.begin() + batches, out.end()});
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    RefIndex at(size);
    bool inside = true;
    for (std::size_t k = 0; k < size; ++k) {
      at[k] = static_cast<std::int64_t>(c.in(0)[i * size + k]);
      if (at[k] < 0) at[k] += dims[k];
      inside = inside && at[k] >= 0 && at[k] < dims[k];
    }
    const std::int64_t batch = static_cast<std::int64_t>(i) / tuples;
    c.out()[i] = inside ? static_cast<double>(batch * ref_count(dims) + ref_flatten(at, dims))
                        : std::numeric_limits<std::int32_t>::min();
  }
}

}  // namespace graft::ops::elements
