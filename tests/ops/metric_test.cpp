#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::metric_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase topk(Dims rows, std::int64_t classes, std::int64_t k) {
  Dims logits = rows;
  logits.push_back(classes);
  return {.name = cat("top_", k, "_of_", classes, "_rows", Shape::of(rows).text()),
          .op = Op::topk_correct,
          .inputs = {{.dims = logits},
                     {.dims = rows, .dtype = DType::i32, .low = 0, .high = static_cast<double>(classes - 1)}},
          .attrs = {{"k", k}},
          .tolerance = 0,
          .reason = "a count",
          .gradient = false,
          .expect_dims = {}};
}

std::vector<OpCase> cases() {
  OpCase ties = topk({4}, 3, 1);
  ties.name = "ties go to the lower index";
  ties.inputs[0].values = {1, 1, 0, 1, 1, 0, 2, 2, 2, 0, 0, 1};
  ties.inputs[1].values = {0, 1, 2, 2};
  OpCase odd = topk({5}, 3, 1);
  odd.name = "ignored, out of range and not a number";
  odd.inputs[0].values = {9, 1, 1, 9, 1, 1, 9, 1, 1, std::numeric_limits<double>::quiet_NaN(), 1, 1, 9, 1, 1};
  odd.inputs[1].values = {0, -100, 3, 0, 0};
  return {topk({40}, 10, 1),
          topk({40}, 10, 5),
          topk({300}, 7, 3),
          topk({3, 5}, 200, 20),
          topk({}, 4, 2),
          topk({6}, 3, 9),
          topk({0}, 5, 1),
          ties,
          odd};
}

GRAFT_OP_CASES(Metric, cases());

TEST(MetricErrors, ShapesAndK) {
  expect_infer_error(topk({4}, 3, 0), "1 or more");
  OpCase c = topk({4}, 3, 1);
  c.inputs[1].dims = {3};
  expect_infer_error(c, "[4] is needed");
}

}  // namespace
}  // namespace graft::test::metric_test
