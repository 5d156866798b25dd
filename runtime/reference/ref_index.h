// Walking over row-major tensors in references: multi-indices, not strides, so that a reference stays obvious.
#pragma once

#include <cstdint>
#include <vector>

namespace graft {

using RefIndex = std::vector<std::int64_t>;

inline std::int64_t ref_count(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

/// The multi-index of element `flat`.
inline RefIndex ref_unflatten(std::int64_t flat, const std::vector<std::int64_t>& dims) {
  RefIndex index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = flat % dims[axis];
    flat /= dims[axis];
  }
  return index;
}

inline std::int64_t ref_flatten(const RefIndex& index, const std::vector<std::int64_t>& dims) {
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) flat = flat * dims[axis] + index[axis];
  return flat;
}

/// Calls visit(flat, multi-index) for every element in row-major order.
template <typename Visit>
void ref_for_each(const std::vector<std::int64_t>& dims, Visit visit) {
  const std::int64_t count = ref_count(dims);
  for (std::int64_t flat = 0; flat < count; ++flat) visit(flat, ref_unflatten(flat, dims));
}

}  // namespace graft
