// What reduce.cpp and reduce_ref.cpp both know: which axes a node reduces, and the kernels' number of its function.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/core/op_id.gen.h"
#include "shaders/reduce/reduce_fn.h"

namespace graft::ops::reduce {

inline bool is_arg(Op op) { return op == Op::arg_max || op == Op::arg_min; }

/// Which axes of an input of this rank are reduced, by `axes` (none given: all) or `axis`. An error on an axis that is
/// out of range or named twice.
inline Result<std::vector<bool>> reduced_axes(Op op, const Attrs& attrs, std::size_t rank) {
  const Ints axes = is_arg(op) ? Ints{attrs.integer("axis")} : attrs.integers("axes");
  std::vector<bool> reduced(rank, axes.empty());
  for (const std::int64_t axis : axes) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, normalize_axis(axis, rank));
    if (reduced[normal]) return invalid("The axis ", axis, " is named twice.");
    reduced[normal] = true;
  }
  return reduced;
}

/// The input's shape with 1 in place of each reduced axis.
inline Shape keepdims_shape(const Shape& in, const std::vector<bool>& reduced) {
  Shape out = in;
  for (std::size_t axis = 0; axis < in.rank(); ++axis) {
    if (reduced[axis]) out[axis] = Dim(1);
  }
  return out;
}

inline reduce_fn::Fn function(Op op, const Attrs& attrs) {
  const bool last = attrs.flag("select_last");
  switch (op) {
    case Op::reduce_mean: return reduce_fn::mean;
    case Op::reduce_max: return reduce_fn::max;
    case Op::reduce_min: return reduce_fn::min;
    case Op::reduce_prod: return reduce_fn::prod;
    case Op::reduce_l1: return reduce_fn::l1;
    case Op::reduce_l2: return reduce_fn::l2;
    case Op::reduce_logsumexp: return reduce_fn::logsumexp;
    case Op::arg_max: return last ? reduce_fn::arg_max_last : reduce_fn::arg_max_first;
    case Op::arg_min: return last ? reduce_fn::arg_min_last : reduce_fn::arg_min_first;
    default: return reduce_fn::sum;
  }
}

}  // namespace graft::ops::reduce
