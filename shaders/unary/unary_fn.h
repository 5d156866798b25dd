// Numbers of the unary functions: constant_id 0 of unary.comp and unary_grad.comp, and their names in C++.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::unary_fn {
enum Fn : std::uint32_t {
#define UNARY_FN(name, number) name = number,
#else
#define UNARY_FN(name, number) const uint fn_##name = number;
#endif
  UNARY_FN(neg, 0)
  UNARY_FN(abs, 1)
  UNARY_FN(exp, 2)
  UNARY_FN(expm1, 3)
  UNARY_FN(log, 4)
  UNARY_FN(log1p, 5)
  UNARY_FN(sqrt, 6)
  UNARY_FN(rsqrt, 7)
  UNARY_FN(reciprocal, 8)
  UNARY_FN(square, 9)
  UNARY_FN(sin, 10)
  UNARY_FN(cos, 11)
  UNARY_FN(tan, 12)
  UNARY_FN(asin, 13)
  UNARY_FN(acos, 14)
  UNARY_FN(atan, 15)
  UNARY_FN(sinh, 16)
  UNARY_FN(cosh, 17)
  UNARY_FN(tanh, 18)
  UNARY_FN(asinh, 19)
  UNARY_FN(acosh, 20)
  UNARY_FN(atanh, 21)
  UNARY_FN(sigmoid, 22)
  UNARY_FN(relu, 23)
  UNARY_FN(leaky_relu, 24)
  UNARY_FN(elu, 25)
  UNARY_FN(selu, 26)
  UNARY_FN(celu, 27)
  UNARY_FN(gelu, 28)
  UNARY_FN(gelu_tanh, 29)
  UNARY_FN(silu, 30)
  UNARY_FN(hard_sigmoid, 31)
  UNARY_FN(hard_swish, 32)
  UNARY_FN(mish, 33)
  UNARY_FN(softplus, 34)
  UNARY_FN(softsign, 35)
  UNARY_FN(thresholded_relu, 36)
  UNARY_FN(erf, 37)
  UNARY_FN(floor, 38)
  UNARY_FN(ceil, 39)
  UNARY_FN(round, 40)
  UNARY_FN(sign, 41)
  UNARY_FN(logical_not, 42)
  UNARY_FN(is_nan, 43)
  UNARY_FN(is_inf, 44)
  UNARY_FN(affine, 45)
  UNARY_FN(clip, 46)
#undef UNARY_FN
#ifdef __cplusplus
};
}  // namespace graft::unary_fn
#endif
