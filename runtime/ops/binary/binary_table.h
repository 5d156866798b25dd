// What binary.cpp and binary_ref.cpp both know: the kernels' number of an op.
#pragma once

#include "runtime/core/graph.h"
#include "runtime/core/op_id.gen.h"
#include "shaders/binary/binary_fn.h"

namespace graft::ops::binary {

inline binary_fn::Fn function(Op op, const Attrs& attrs) {
  switch (op) {
    case Op::sub: return binary_fn::sub;
    case Op::mul: return binary_fn::mul;
    case Op::div: return binary_fn::div;
    case Op::pow: return binary_fn::pow;
    case Op::maximum: return binary_fn::maximum;
    case Op::minimum: return binary_fn::minimum;
    case Op::remainder: return attrs.flag("fmod") ? binary_fn::trunc_mod : binary_fn::floor_mod;
    case Op::prelu: return binary_fn::prelu;
    case Op::equal: return binary_fn::equal;
    case Op::not_equal: return binary_fn::not_equal;
    case Op::less: return binary_fn::less;
    case Op::less_equal: return binary_fn::less_equal;
    case Op::greater: return binary_fn::greater;
    case Op::greater_equal: return binary_fn::greater_equal;
    case Op::logical_and: return binary_fn::logical_and;
    case Op::logical_or: return binary_fn::logical_or;
    case Op::logical_xor: return binary_fn::logical_xor;
    case Op::bitwise_and: return binary_fn::bitwise_and;
    case Op::bitwise_or: return binary_fn::bitwise_or;
    case Op::bitwise_xor: return binary_fn::bitwise_xor;
    case Op::shift_left: return binary_fn::shift_left;
    case Op::shift_right: return binary_fn::shift_right;
    default: return binary_fn::add;
  }
}

}  // namespace graft::ops::binary
