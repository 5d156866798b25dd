// Numbers of the binary functions: constant_id 0 of binary.comp and binary_grad.comp, and their names in C++.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::binary_fn {
enum Fn : std::uint32_t {
#define BINARY_FN(name, number) name = number,
#else
#define BINARY_FN(name, number) const uint fn_##name = number;
#endif
  BINARY_FN(add, 0)
  BINARY_FN(sub, 1)
  BINARY_FN(mul, 2)
  BINARY_FN(div, 3)
  BINARY_FN(pow, 4)
  BINARY_FN(maximum, 5)
  BINARY_FN(minimum, 6)
  BINARY_FN(floor_mod, 7)
  BINARY_FN(trunc_mod, 8)
  BINARY_FN(prelu, 9)
  BINARY_FN(equal, 10)
  BINARY_FN(not_equal, 11)
  BINARY_FN(less, 12)
  BINARY_FN(less_equal, 13)
  BINARY_FN(greater, 14)
  BINARY_FN(greater_equal, 15)
  BINARY_FN(logical_and, 16)
  BINARY_FN(logical_or, 17)
  BINARY_FN(logical_xor, 18)
  BINARY_FN(bitwise_and, 19)
  BINARY_FN(bitwise_or, 20)
  BINARY_FN(bitwise_xor, 21)
  BINARY_FN(shift_left, 22)
  BINARY_FN(shift_right, 23)
#undef BINARY_FN
#ifdef __cplusplus
};
}  // namespace graft::binary_fn
#endif
