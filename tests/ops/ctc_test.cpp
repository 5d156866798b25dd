#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::ctc_test {
namespace {

OpCase ctc(std::string name, std::int64_t steps, std::int64_t classes, std::int64_t length, std::vector<double> labels,
           Attrs attrs = {}) {
  const auto samples = static_cast<std::int64_t>(labels.size()) / length;
  return {.name = std::move(name),
          .op = Op::ctc_loss,
          // Any numbers will do: they need not be the logarithms of probabilities that sum to 1.
          .inputs = {{.dims = {samples, steps, classes}, .low = -4, .high = -0.1},
                     {.dims = {samples, length}, .dtype = DType::i32, .values = std::move(labels)}},
          .attrs = std::move(attrs),
          .tolerance = 1e-5,
          .reason = "a logarithm of a sum, good to 1e-7 of up to 4 a step, for each of up to 40 steps",
          .difference_step = 1e-5,
          .difference_tolerance = 1e-5,
          .expect_dims = std::vector<std::int64_t>{samples}};
}

std::vector<OpCase> cases() {
  std::vector<double> many;
  for (int i = 0; i < 70; ++i) many.push_back(1 + i * 7 % 5);
  // Logarithms near -300, good to 1e-5: so are the chances that their differences are of.
  OpCase long_one = ctc("many labels", 75, 6, 70, many);
  long_one.tolerance = 2e-4;
  OpCase impossible = ctc("more labels than time", 2, 4, 3, {1, 2, 3, 1, -1, -1});
  impossible.gradient = false;
  OpCase zero =
      ctc("impossible counts for nothing", 2, 4, 3, {1, 2, 3, 1, -1, -1}, {{"zero_infinity", std::int64_t{1}}});
  zero.gradient = false;  // differences of zeros are compared below
  return {
      ctc("different labels", 6, 5, 2, {1, 2, 4, 3, 2, 1}),
      ctc("labels that repeat", 7, 4, 3, {1, 1, 2, 2, 2, 2, 3, 1, 3}),
      ctc("ends and no label", 5, 4, 3, {1, -1, -1, -1, -1, -1, 3, 2, -1}),
      ctc("another blank", 6, 4, 2, {0, 1, 2, 0}, {{"blank", std::int64_t{3}}}),
      ctc("just enough time", 4, 3, 2, {1, 1, 2, 1}),
      ctc("one step", 1, 3, 1, {1, 2}),
      // More states than a workgroup has lanes.
      long_one,
      impossible,
      zero,
  };
}

GRAFT_OP_CASES(Ctc, cases());

TEST(CtcErrors, ShapesAndBlank) {
  expect_infer_error(ctc("", 4, 3, 2, {1, 2}, {{"blank", std::int64_t{3}}}), "\"blank\"");
  OpCase c = ctc("", 4, 3, 2, {1, 2});
  c.inputs[1].dims = {2, 1};
  expect_infer_error(c, "different numbers of samples");
}

}  // namespace
}  // namespace graft::test::ctc_test
