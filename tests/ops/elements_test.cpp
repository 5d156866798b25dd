#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::elements_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase gather(std::string name, Dims data, Dims indices, std::int64_t axis, DType dtype = DType::f32) {
  const auto size = static_cast<double>(data[axis < 0 ? data.size() + axis : axis]);
  return {.name = std::move(name),
          .op = Op::gather_elements,
          .inputs = {{.dims = std::move(data), .dtype = dtype, .low = -7, .high = 7},
                     {.dims = std::move(indices), .dtype = DType::i32, .low = -size, .high = size - 1}},
          .attrs = {{"axis", axis}},
          .tolerance = 1e-6,
          .reason = "forward is exact; the gradient adds up a few numbers in f32",
          .gradient = dtype == DType::f32};
}

OpCase with_indices(OpCase c, std::vector<double> values) {
  c.inputs[1].values = std::move(values);
  return c;
}

std::vector<OpCase> gather_cases() {
  OpCase miss = with_indices(gather("out_of_range_is_zero", {4, 3}, {2, 3}, 0), {0, 4, -5, 2147483647, -4, 3});
  miss.attrs.set("zero_miss", std::int64_t{1});
  OpCase not_a_number = with_indices(gather("out_of_range", {4, 3}, {2, 3}, 0), {0, 4, -5, 2147483647, -4, 3});
  not_a_number.gradient = false;  // it would spoil the differences
  return {gather("last_axis", {5, 7}, {5, 4}, -1),
          gather("first_axis", {5, 3}, {9, 3}, 0),
          gather("middle_axis", {2, 6, 3}, {2, 5, 3}, 1),
          gather("one_index_for_each_run", {2, 6, 3, 4}, {2, 5, 1, 1}, 1),
          gather("vector", {300}, {150}, 0),
          gather("no_indices", {4, 3}, {0, 3}, 0),
          gather("integers", {5, 3}, {4, 3}, 0, DType::i32),
          gather("booleans", {6}, {9}, 0, DType::boolean),
          miss,
          not_a_number};
}
GRAFT_OP_CASES(GatherElements, gather_cases());

OpCase scatter(std::string name, Dims data, Dims indices, std::int64_t axis, std::string reduction,
               DType dtype = DType::f32) {
  const std::size_t at = axis < 0 ? data.size() + axis : axis;
  const auto size = static_cast<double>(data[at]);
  Dims updates = data;
  updates[at] = indices[at];
  return {.name = std::move(name) + "_" + reduction,
          .op = Op::scatter_elements,
          .inputs = {{.dims = std::move(data), .dtype = dtype, .low = -3, .high = 3},
                     {.dims = std::move(indices), .dtype = DType::i32, .low = -size, .high = size - 1},
                     {.dims = std::move(updates), .dtype = dtype, .low = -3, .high = 3}},
          .attrs = {{"axis", axis}, {"reduction", reduction}},
          .tolerance = 1e-6,
          .reason = "a few numbers are combined in f32, in one order",
          .gradient = dtype == DType::f32 && reduction != "mul"};
}

std::vector<OpCase> scatter_cases() {
  std::vector<OpCase> all;
  for (const char* reduction : {"none", "add", "mul", "min", "max"}) {
    all.push_back(scatter("rows", {6, 3}, {9, 3}, 0, reduction));
    all.push_back(scatter("integers", {6, 3}, {9, 3}, 0, reduction, DType::i32));
  }
  all.push_back(scatter("last_axis", {2, 3, 7}, {2, 3, 4}, -1, "none"));
  all.push_back(scatter("one_index_for_each_run", {2, 6, 3}, {2, 9, 1}, 1, "none"));
  all.push_back(scatter("one_index_for_each_run", {6, 200}, {3, 1}, 0, "add"));
  all.push_back(scatter("nothing", {4, 3}, {0, 3}, 0, "none"));
  all.push_back(scatter("booleans", {9}, {4}, 0, "none", DType::boolean));
  for (OpCase& c : all) {
    if (c.inputs[0].dtype == DType::boolean) {
      for (const std::size_t i : {0, 2}) c.inputs[i].low = 0, c.inputs[i].high = 1;
    }
  }
  for (const char* reduction : {"none", "add", "max"}) {
    all.push_back(with_indices(scatter("out_of_range", {4, 2}, {3, 2}, 0, reduction), {0, 4, -5, 2147483647, -4, 1}));
  }
  // The gradient of what is multiplied exists for the data.
  OpCase data_of_products = scatter("gradient_of_data", {6, 3}, {9, 3}, 0, "mul");
  data_of_products.gradient = true;
  data_of_products.inputs[2].grad = false;
  all.push_back(data_of_products);
  return all;
}
GRAFT_OP_CASES(ScatterElements, scatter_cases());

OpCase nd_index(std::string name, Dims indices, Shape dims, std::int64_t batches, double size, Dims out) {
  return {.name = std::move(name),
          .op = Op::nd_index,
          .inputs = {{.dims = std::move(indices), .dtype = DType::i32, .low = -size, .high = size - 1}},
          .attrs = {{"dims", std::move(dims)}, {"batches", batches}},
          .tolerance = 0,
          .reason = "integers",
          .gradient = false,
          .expect_dims = std::move(out)};
}

std::vector<OpCase> nd_index_cases() {
  OpCase outside = nd_index("out_of_range", {4, 2}, Shape{3, 5}, 0, 3, {4});
  outside.inputs[0].values = {2, 5, -4, 0, 0, -5, 2147483647, 1};
  return {nd_index("pairs", {7, 2}, Shape{3, 5}, 0, 3, {7}),
          nd_index("of_batches", {2, 4, 2}, Shape{3, 5}, 1, 3, {2, 4}), nd_index("single", {1}, Shape{9}, 0, 9, {}),
          outside};
}
GRAFT_OP_CASES(NdIndex, nd_index_cases());

TEST(ElementsInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(gather("bad", {4, 3}, {2, 2}, 0), "do not fit");
  expect_infer_error(gather("bad", {4, 3}, {2}, 0), "do not fit");
  expect_infer_error(scatter("bad", {4, 3}, {2, 3}, 0, "sub"), "\"sub\"");
  expect_infer_error(scatter("bad", {4, 3}, {2, 3}, 0, "add", DType::boolean), "Truth values");
  OpCase updates = scatter("bad", {4, 3}, {2, 3}, 0, "add");
  updates.inputs[2].dims = {3, 3};
  expect_infer_error(updates, "[3, 3]");
  expect_infer_error(nd_index("bad", {4, 3}, Shape{3, 5}, 0, 3, {4}), "\"dims\"");
  expect_infer_error(nd_index("bad", {4, 2}, Shape{3, 5}, 2, 3, {4}), "\"batches\" is 2");
}

}  // namespace
}  // namespace graft::test::elements_test
