// Axes that are as long as the data decide.
#pragma once

#include <cstddef>

#include "runtime/core/graph.h"

namespace graft::convert {

/// An axis that is as long as the data decide: the value's shape has the most that it can be, and `count`, an i32
/// without axes, says how many there are when the network runs.
struct CountedAxis {
  std::size_t axis = 0;
  ValueId count;
  friend bool operator==(const CountedAxis&, const CountedAxis&) = default;
};

/// Places of what a mask chooses among all of its elements, in order; behind the last of them 0.
struct Chosen {
  ValueId places;  ///< i32 [elements]
  ValueId count;   ///< i32 []
};

}  // namespace graft::convert
