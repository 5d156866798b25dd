// One struct per case, many checks: everything an op promises is driven from a table of these.
//
// For each case: shapes as inference gives them; the reference's gradient against central differences of the
// reference's forward (both in double); the device's outputs, gradients and updated state against the reference;
// two runs on the device bit-equal; the same with every operand and result kept in 16 bits: f16 in one half of the
// cases, bf16 in the other (both with GRAFT_TEST_LOW_PRECISION=all in the environment).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/core/op_def.h"
#include "runtime/reference/interpreter.h"

namespace graft::test {

/// How an input is filled; all generators are seeded by the case and the input's number.
struct OpInput {
  std::vector<std::int64_t> dims;
  DType dtype = DType::f32;
  /// Uniform in [low, high); for integers both bounds included.
  double low = -1;
  double high = 1;
  std::vector<double> values = {};    ///< used instead of random numbers where not empty
  bool grad = true;                   ///< checks the gradient with respect to this (floats only)
  ValueKind kind = ValueKind::input;  ///< parameter or state for mutated inputs
  bool missing = false;               ///< an optional input that is left out
};

/// For products by integer dots: numbers of up to 1 are rounded to multiples of 1/127, off by 0.0023 (root mean square)
/// beside 0.58, which is 0.4 % of a sum's typical size; the largest of a few hundred is off by three and a half times
/// that.
inline constexpr double kIntegerDotTolerance = 1.5e-2;

struct OpCase {
  std::string name;
  Op op{};
  std::vector<OpInput> inputs;
  Attrs attrs = {};
  /// Allowed |device - reference|, relative to max(|reference|, root mean square of the tensor).
  double tolerance = 1e-5;
  /// Why that much: which rounding it allows for. Must not be empty.
  std::string reason = "a few roundings of f32 (6e-8 each)";
  bool gradient = true;                          ///< false: the op (or this case) has none to check
  std::size_t cotangents = 255;                  ///< only so many leading outputs are differentiated through
  double difference_step = 1e-4;                 ///< of the central differences
  double difference_tolerance = 1e-5;            ///< relative, against differences of order h^2
  std::vector<std::int64_t> expect_dims = {-1};  ///< of output 0; {-1}: not checked
  RefStepState step_state = {};
  /// Roundings to 16 bits (2^-11 or 2^-8 each) that the device's results may differ by more where everything is kept
  /// so: of the result itself, of what it is computed from, and of what the gradient is. 0: the case is not run so.
  double low_precision_roundings = 4;
};

void PrintTo(const OpCase& c, std::ostream* out);

class OpTest : public testing::TestWithParam<OpCase> {};

void check_op_case(const OpCase& c);

/// Expects that adding the node fails with a message that contains `part`.
void expect_infer_error(const OpCase& c, const std::string& part);

std::string op_case_name(const testing::TestParamInfo<OpCase>& info);

}  // namespace graft::test

/// GRAFT_OP_CASES(Softmax, cases): `cases` is a std::vector<OpCase>.
#define GRAFT_OP_CASES(suite, cases)                                            \
  using suite = ::graft::test::OpTest;                                          \
  TEST_P(suite, MatchesReference) { ::graft::test::check_op_case(GetParam()); } \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(cases), ::graft::test::op_case_name)
