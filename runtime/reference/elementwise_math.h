// Elementwise functions in double precision, by the numbers that kernels give them; in the references of the unary and
// binary ops.
#pragma once

#include "shaders/binary/binary_fn.h"
#include "shaders/unary/unary_fn.h"

namespace graft::ref {

/// alpha and beta are the function's two parameters.
double unary_value(unary_fn::Fn fn, double x, double alpha, double beta);
/// The slope of the function; `saved` is what that is written in, x or y.
double unary_slope(unary_fn::Fn fn, double saved, double alpha, double beta);
double binary_value(binary_fn::Fn fn, double a, double b);

}  // namespace graft::ref
