// Dispatching shaders/reduce/reduce.comp over any axes, in one pass or two.
#pragma once

#include "runtime/ops/emitter.h"
#include "shaders/reduce/reduce_fn.h"

namespace graft::ops::reduce {

/// A tensor's axes, merged and sorted into kept and reduced ones, innermost first.
struct Reduction {
  struct Axis {
    std::uint64_t dim;
    std::uint64_t stride;  ///< in elements
  };
  std::vector<Axis> kept;
  std::vector<Axis> reduced;
  std::uint64_t outputs = 1;
  std::uint64_t count = 1;  ///< elements per output
};

/// Requires a constant shape. At most four axes of either sort remain.
Reduction reduction_of(const Shape& in, const std::vector<bool>& reduced);

/// Reduces `in` to `out`, one 4-byte element per output. `result` is bound as the finished result where the function
/// wants it (ties), else any slot.
Status emit_reduction(Emitter& e, reduce_fn::Fn fn, DType dtype, const Reduction& reduction, Binding in, Binding out,
                      Binding result);

}  // namespace graft::ops::reduce
