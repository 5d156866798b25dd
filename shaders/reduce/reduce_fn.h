// Numbers of the reductions: constant_id 0 of reduce.comp and reduce_grad.comp, and their names in C++.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::reduce_fn {
enum Fn : std::uint32_t {
#define REDUCE_FN(name, number) name = number,
#else
#define REDUCE_FN(name, number) const uint fn_##name = number;
#endif
  REDUCE_FN(sum, 0)
  REDUCE_FN(mean, 1)
  REDUCE_FN(max, 2)
  REDUCE_FN(min, 3)
  REDUCE_FN(prod, 4)
  REDUCE_FN(l1, 5)
  REDUCE_FN(l2, 6)
  REDUCE_FN(logsumexp, 7)
  REDUCE_FN(arg_max_first, 8)
  REDUCE_FN(arg_max_last, 9)
  REDUCE_FN(arg_min_first, 10)
  REDUCE_FN(arg_min_last, 11)
  REDUCE_FN(ties, 12)             // how many elements equal the result, as a float: for gradients of max and min
  REDUCE_FN(product_of_rest, 13)  // the product of all but one zero: for the gradient of prod
#undef REDUCE_FN
#ifdef __cplusplus
};
}  // namespace graft::reduce_fn
#endif
