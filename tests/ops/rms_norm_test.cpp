#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::rms_norm_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase rms(std::string name, Dims dims, std::int64_t axis = -1, bool scale = true, bool add_unit = false) {
  const auto first = axis < 0 ? axis + static_cast<std::int64_t>(dims.size()) : axis;
  const Dims trailing(dims.begin() + first, dims.end());
  return {.name = std::move(name),
          .op = Op::rms_norm,
          .inputs = {{.dims = std::move(dims)}, {.dims = trailing, .missing = !scale}},
          .attrs = {{"axis", axis}, {"epsilon", 1e-6}, {"add_unit", std::int64_t{add_unit}}},
          .tolerance = 2e-5,
          .reason = "sums of up to a thousand numbers in f32, and a square root and a division of 2.5 ULP each",
          .cotangents = 1};
}

std::vector<OpCase> cases() {
  OpCase frozen = rms("frozen scale", {3, 5, 40});
  frozen.inputs[1].grad = false;
  OpCase only_scale = rms("only the scale", {70, 9});
  only_scale.inputs[0].grad = false;
  OpCase epsilon = rms("epsilon", {4, 6});
  epsilon.attrs.set("epsilon", 0.5);
  OpCase defaults = rms("defaults", {4, 6});
  defaults.attrs = {};
  OpCase offset = rms("far from zero", {4, 300});
  offset.inputs[0].low = 900;
  offset.inputs[0].high = 1100;
  offset.gradient = false;
  OpCase sign = rms("one column", {5, 1});
  sign.gradient = false;  // y is the sign of x: its gradient is what cancellation leaves
  return {
      rms("rows", {6, 10}),
      sign,
      rms("one row", {1, 64}),
      rms("long rows", {3, 1000}),
      rms("rows of 288", {2, 3, 288}),
      rms("two axes", {4, 3, 5}, 1),
      rms("all axes", {3, 5}, 0),
      rms("many rows", {700, 3}),
      rms("rows in chunks", {200, 33}),
      rms("plain", {5, 9}, -1, false),
      rms("unit added", {5, 9}, -1, true, true),
      rms("unit added without scale", {5, 9}, -1, false, true),
      rms("heads", {2, 4, 3, 16}, 3, true, true),
      rms("empty", {0, 4}),
      frozen,
      only_scale,
      epsilon,
      defaults,
      offset,
  };
}
GRAFT_OP_CASES(RmsNorm, cases());

TEST(RmsNormInfer, RefusesWhatDoesNotFit) {
  OpCase scale = rms("bad", {4, 6});
  scale.inputs[1].dims = {4};
  expect_infer_error(scale, "[6] is needed");
  OpCase epsilon = rms("bad", {4, 6});
  epsilon.attrs.set("epsilon", std::nan(""));
  expect_infer_error(epsilon, "\"epsilon\" is nan");
  OpCase axis = rms("bad", {4, 6});
  axis.attrs.set("axis", std::int64_t{2});
  expect_infer_error(axis, "axis");
}

}  // namespace
}  // namespace graft::test::rms_norm_test
