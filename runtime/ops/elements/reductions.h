// What an update does to the element that it meets.
#pragma once

#include <cstdint>

#include "runtime/core/graph.h"

namespace graft::ops::elements {

enum class Reduction : std::uint32_t { none = 0, add = 1, mul = 2, min = 3, max = 4 };  // as in scatter_elements.comp

inline Result<Reduction> reduction_of(const Attrs& attrs) {
  const std::string name = attrs.text("reduction");
  if (name.empty() || name == "none") return Reduction::none;
  if (name == "add") return Reduction::add;
  if (name == "mul") return Reduction::mul;
  if (name == "min") return Reduction::min;
  if (name == "max") return Reduction::max;
  return invalid("The attribute \"reduction\" is \"", name, "\"; none, add, mul, min and max are known.");
}

}  // namespace graft::ops::elements
