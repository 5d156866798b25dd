// What unary.cpp and unary_ref.cpp both know of the unary functions: numbers, parameters, what the slope is written in.
#pragma once

#include <limits>

#include "runtime/core/graph.h"
#include "runtime/core/op_id.gen.h"
#include "shaders/unary/unary_fn.h"

namespace graft::ops::unary {

/// The two parameters of a function: alpha and beta of the kernels.
struct Params {
  double alpha = 0;
  double beta = 0;
};

/// What the derivative is written in.
enum class Slope { none, constant, of_x, of_y };

struct Function {
  unary_fn::Fn fn;
  Slope slope;
};

/// `attrs` decides between the two forms of gelu.
inline Function function(Op op, const Attrs& attrs) {
  using enum Slope;
  switch (op) {
    case Op::neg: return {unary_fn::neg, constant};
    case Op::abs: return {unary_fn::abs, of_x};
    case Op::exp: return {unary_fn::exp, of_y};
    case Op::expm1: return {unary_fn::expm1, of_y};
    case Op::log: return {unary_fn::log, of_x};
    case Op::log1p: return {unary_fn::log1p, of_x};
    case Op::sqrt: return {unary_fn::sqrt, of_y};
    case Op::rsqrt: return {unary_fn::rsqrt, of_y};
    case Op::reciprocal: return {unary_fn::reciprocal, of_y};
    case Op::square: return {unary_fn::square, of_x};
    case Op::sin: return {unary_fn::sin, of_x};
    case Op::cos: return {unary_fn::cos, of_x};
    case Op::tan: return {unary_fn::tan, of_y};
    case Op::asin: return {unary_fn::asin, of_x};
    case Op::acos: return {unary_fn::acos, of_x};
    case Op::atan: return {unary_fn::atan, of_x};
    case Op::sinh: return {unary_fn::sinh, of_x};
    case Op::cosh: return {unary_fn::cosh, of_x};
    case Op::tanh: return {unary_fn::tanh, of_y};
    case Op::asinh: return {unary_fn::asinh, of_x};
    case Op::acosh: return {unary_fn::acosh, of_x};
    case Op::atanh: return {unary_fn::atanh, of_x};
    case Op::sigmoid: return {unary_fn::sigmoid, of_y};
    case Op::relu: return {unary_fn::relu, of_y};
    case Op::leaky_relu: return {unary_fn::leaky_relu, of_x};
    case Op::elu: return {unary_fn::elu, of_x};
    case Op::selu: return {unary_fn::selu, of_x};
    case Op::celu: return {unary_fn::celu, of_x};
    case Op::gelu: return {attrs.text("approximate") == "tanh" ? unary_fn::gelu_tanh : unary_fn::gelu, of_x};
    case Op::silu: return {unary_fn::silu, of_x};
    case Op::hard_sigmoid: return {unary_fn::hard_sigmoid, of_y};
    case Op::hard_swish: return {unary_fn::hard_swish, of_x};
    case Op::mish: return {unary_fn::mish, of_x};
    case Op::softplus: return {unary_fn::softplus, of_x};
    case Op::softsign: return {unary_fn::softsign, of_x};
    case Op::thresholded_relu: return {unary_fn::thresholded_relu, of_x};
    case Op::erf: return {unary_fn::erf, of_x};
    case Op::floor: return {unary_fn::floor, none};
    case Op::ceil: return {unary_fn::ceil, none};
    case Op::round: return {unary_fn::round, none};
    case Op::sign: return {unary_fn::sign, none};
    case Op::logical_not: return {unary_fn::logical_not, none};
    case Op::is_nan: return {unary_fn::is_nan, none};
    case Op::is_inf: return {unary_fn::is_inf, none};
    case Op::affine: return {unary_fn::affine, constant};
    case Op::clip: return {unary_fn::clip, of_x};
    default: return {unary_fn::neg, none};
  }
}

/// Of the op or its gradient, which has the attributes of the op.
inline Params params(Op op, const Attrs& given) {
  Attrs attrs = given;
  attrs.declared_by(op_def(op).attrs);
  switch (op) {
    case Op::leaky_relu:
    case Op::thresholded_relu: return {attrs.number("alpha"), 0};
    case Op::elu: return {attrs.number("alpha"), 1};
    case Op::celu: return {attrs.number("alpha"), 1 / attrs.number("alpha")};
    case Op::selu: return {attrs.number("alpha"), attrs.number("gamma")};
    case Op::hard_sigmoid:
    case Op::affine: return {attrs.number("alpha"), attrs.number("beta")};
    case Op::clip: return {attrs.number("min"), attrs.number("max")};
    default: return {};
  }
}

}  // namespace graft::ops::unary
