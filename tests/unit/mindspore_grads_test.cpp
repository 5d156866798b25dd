// Convolution and pooling against MindSpore Lite's own vectors of outputs and gradients (data set ref-mindspore-grads,
// raw little-endian f32, NHWC). Skipped where the shared test data is not there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "platform/os/file.h"
#include "runtime/autodiff/autodiff.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/paths.h"
#include "tests/support/run_graph.h"

namespace graft::test::mindspore_grads_test {
namespace {

using Dims = std::vector<std::int64_t>;

struct Vectors {
  std::string name;
  Op op{};
  Attrs attrs;
  std::string x, w, dy;   ///< files; w is empty for pooling
  std::string y, dx, dw;  ///< expected; any may be empty
  Dims x_dims, w_dims, y_dims;
};

void PrintTo(const Vectors& v, std::ostream* out) { *out << v.name; }

Result<RefTensor> read_vector(const std::string& file, const Dims& dims) {
  const std::string path = test_data("ref-mindspore-grads/" + file);
  GRAFT_TRY_ASSIGN(const std::string bytes, os::read_text_file(os::system_files(), path, 1u << 20));
  RefTensor tensor{dims, std::vector<double>(Shape::of(dims).elements())};
  if (bytes.size() != tensor.data.size() * sizeof(float)) {
    return invalid(path, " has ", bytes.size(), " bytes, not ", tensor.data.size() * sizeof(float), ".");
  }
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    tensor.data[i] = value;
  }
  return tensor;
}

void expect_near(const RefTensor& actual, const std::string& file, const Dims& dims) {
  const auto expected = read_vector(file, dims);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_EQ(actual.data.size(), expected->data.size()) << file;
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < actual.data.size(); ++i) {
    difference += (actual.data[i] - expected->data[i]) * (actual.data[i] - expected->data[i]);
    norm += expected->data[i] * expected->data[i];
  }
  // Both sides sum up to 784 products in f32, in different orders: sqrt(784) roundings of 6e-8, relative to the norm.
  EXPECT_LE(std::sqrt(difference / norm), 2e-6) << file;
}

class MindSporeGrads : public testing::TestWithParam<Vectors> {};

TEST_P(MindSporeGrads, Agree) {
  const Vectors& v = GetParam();
  if (!os::exists(os::system_files(), test_data("ref-mindspore-grads/SOURCE.txt"))) {
    GTEST_SKIP() << "There is no " << test_data("ref-mindspore-grads") << ".";
  }
  if (const Status device = device_available(); !device.ok()) GTEST_SKIP() << device.message();
  Graph graph;
  RefTensors feeds;
  const auto feed = [&](const char* name, const std::string& file, const Dims& dims) {
    auto tensor = read_vector(file, dims);
    EXPECT_TRUE(tensor.ok()) << tensor.status().message();
    if (tensor.ok()) feeds[name] = *std::move(tensor);
    return graph.add_value(name, DType::f32, Shape::of(dims), ValueKind::input).value();
  };
  std::vector<ValueId> inputs = {feed("x", v.x, v.x_dims)};
  if (!v.w.empty()) inputs.push_back(feed("w", v.w, v.w_dims));
  const ValueId dy = feed("dy", v.dy, v.y_dims);
  ASSERT_FALSE(HasFailure());
  const auto node = graph.add_node(v.op, inputs, v.attrs, "y");
  ASSERT_TRUE(node.ok()) << node.status().message();
  const ValueId y = graph.node(*node).outputs[0];
  const auto gradients = add_gradients(graph, {{y, dy}}, inputs);
  ASSERT_TRUE(gradients.ok()) << gradients.status().message();
  graph.add_output("y", y);
  for (const ValueId gradient : *gradients) graph.add_output(graph.value(gradient).name, gradient);
  auto result = run_on_device(graph, feeds);
  ASSERT_TRUE(result.ok()) << result.status().message();
  if (!v.y.empty()) expect_near((*result)["y"], v.y, v.y_dims);
  if (!v.dx.empty()) expect_near((*result)[graph.value((*gradients)[0]).name], v.dx, v.x_dims);
  if (!v.dw.empty()) expect_near((*result)[graph.value((*gradients)[1]).name], v.dw, v.w_dims);
}

Vectors conv(const std::string& tag, const std::string& x, const std::string& dx, Dims x_dims, Dims w_dims, Dims y_dims,
             const std::string& w_name, const std::string& y_name, Attrs window) {
  const std::string base = "conv/convfp32_";
  Vectors v{.name = "conv" + tag, .op = Op::conv, .attrs = std::move(window)};
  v.attrs.set("pads", Ints{1, 1, 1, 1});
  v.x = base + x;
  v.dx = base + dx;
  v.w = base + "w" + w_name;
  v.dw = base + "dw" + w_name;
  v.dy = base + "dy" + y_name;
  v.x_dims = std::move(x_dims);
  v.w_dims = std::move(w_dims);
  v.y_dims = std::move(y_dims);
  return v;
}

Vectors pool(const std::string& kind, const std::string& tag, std::int64_t images, std::int64_t stride) {
  const std::string n = std::to_string(images);
  const std::string base = "pooling/" + kind + "poolgradfp32_" + tag + "_";
  const std::string image = "_" + n + "_28_28_3.bin";
  const std::int64_t out = (28 + 2 - 3) / stride + 1;
  const bool max = kind == "max";
  Vectors v{.name = kind + "_pool_" + tag + "_of_" + n, .op = max ? Op::max_pool : Op::avg_pool};
  v.attrs = {{"kernel", Ints{3, 3}}, {"strides", Ints{stride, stride}}, {"pads", Ints{1, 1, 1, 1}}};
  if (!max) v.attrs.set("count_include_pad", std::int64_t{1});
  v.x = base + "x" + image;
  v.dy = base + "dy" + image;
  v.dx = base + (max ? "xgrad" : "dx") + image;
  if (max) v.y = base + "dx" + image;  // the forward's output, by its contents
  v.x_dims = {images, 28, 28, 3};
  v.y_dims = {images, out, out, 3};
  return v;
}

std::vector<Vectors> vectors() {
  const auto integer = [](std::int64_t value) { return value; };
  return {
      conv("", "x_1_28_28_3.bin", "dx_1_28_28_3.bin", {1, 28, 28, 3}, {32, 3, 3, 3}, {1, 28, 28, 32}, "_32_3_3_3.bin",
           "_1_28_28_32.bin", {}),
      conv("_groups", "x_g3_1_28_28_3.bin", "dx_g3_1_28_28_3.bin", {1, 28, 28, 3}, {18, 3, 3, 1}, {1, 28, 28, 18},
           "_g3_18_3_3_3.bin", "_g3_1_28_28_18.bin", {{"groups", integer(3)}}),
      conv("_groups_dilated", "x_g3_d2_1_28_28_3.bin", "dx_g3_d2_1_28_28_3.bin", {1, 28, 28, 3}, {18, 3, 3, 1},
           {1, 26, 26, 18}, "_g3_d2_18_3_3_3.bin", "_g3_d2_1_26_26_18.bin",
           {{"groups", integer(3)}, {"dilations", Ints{2, 2}}}),
      conv("_groups_dilated_strided", "input0_d2_g2_s2_2_4_32_32.bin", "inputdx_d2_g2_s2_2_4_32_32.bin", {2, 32, 32, 4},
           {12, 3, 3, 2}, {2, 15, 15, 12}, "_d2_g2_s2_12_2_3_3.bin", "_d2_g2_s2_2_12_15_15.bin",
           {{"groups", integer(2)}, {"dilations", Ints{2, 2}}, {"strides", Ints{2, 2}}}),
      pool("avg", "1", 1, 1),
      pool("avg", "1", 3, 1),
      pool("avg", "s2", 3, 2),
      pool("avg", "s3", 3, 3),
      pool("max", "1", 1, 1),
      pool("max", "1", 3, 1),
      pool("max", "s2", 3, 2),
      pool("max", "s3", 3, 3),
  };
}
std::string vectors_name(const testing::TestParamInfo<Vectors>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(, MindSporeGrads, testing::ValuesIn(vectors()), vectors_name);

}  // namespace
}  // namespace graft::test::mindspore_grads_test
