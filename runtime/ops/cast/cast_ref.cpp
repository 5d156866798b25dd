#include <algorithm>
#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::cast {
namespace {

double apply(double x, DType to) {
  if (to == DType::boolean) return x != 0 ? 1 : 0;
  if (to != DType::i32) return x;
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), -2147483648.0, 2147483647.0);
}

}  // namespace

void ref_cast(RefContext& c) {
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = apply(c.in(0)[i], c.out_dtype());
}

}  // namespace graft::ops::cast
