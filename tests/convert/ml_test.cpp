// Linear models as skl2onnx writes them, scores of attention, and weights in external data: read, and written back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "platform/os/file.h"
#include "runtime/passes/bind.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/onnx_writer.h"
#include "tests/support/files/temporary_folder.h"
#include "tools/convert/onnx/export/export_onnx.h"
#include "tools/convert/onnx/export/write_onnx.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::convert_ml_test {
namespace {

using Numbers = std::vector<double>;

Message floats_attribute(const std::string& name, const std::vector<float>& values) {
  Message m;
  m.text(1, name);
  for (const float v : values) m.float32(7, v);
  return m.integer(20, 6);
}
Message float_attribute(const std::string& name, float value) {
  return Message().text(1, name).float32(2, value).integer(20, 1);
}
Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).integer(20, 3);
}
Message texts_attribute(const std::string& name, const std::vector<std::string>& values) {
  Message m;
  m.text(1, name);
  for (const std::string& v : values) m.text(9, v);
  return m.integer(20, 8);
}
Message ml_node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                const std::vector<Message>& attributes) {
  return onnx_node(op, inputs, outputs, attributes).text(7, "ai.onnx.ml");
}
/// A sequence of maps from int64 to float, as ZipMap gives.
Message map_output(const std::string& name) {
  const Message number = Message().message(1, Message().integer(1, 1));
  return Message().text(1, name).message(
      2, Message().message(4, Message().message(1, Message().message(5, Message().integer(1, 7).message(2, number)))));
}

Result<convert::Converted> converted(const std::string& file, convert::Report* report = nullptr,
                                     const std::string& folder = "") {
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::parse_onnx(std::as_bytes(std::span(file)), folder));
  return convert::convert_onnx(std::move(graph), "test.onnx", {}, report);
}

/// All outputs, in order.
std::vector<Numbers> outputs_of(const Model& model, const std::map<std::string, Numbers>& inputs, std::int64_t batch) {
  Bindings bindings;
  for (const std::string& symbol : model.graph.symbols()) bindings[symbol] = batch;
  auto bound = graft::bind(model.graph, bindings);
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  RefTensors tensors = weights_of(model);
  for (const ValueId id : bound->inputs()) {
    const Value& value = bound->value(id);
    tensors[value.name] = RefTensor{value.shape.values(), inputs.at(value.name)};
  }
  const Status status = interpret(*bound, tensors);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<Numbers> out;
  for (const Output& output : bound->outputs()) out.push_back(tensors[bound->value(output.value).name].data);
  return out;
}

void expect_near(const Numbers& got, const Numbers& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << "element " << i;
}

const std::vector<float> kCoefficients = {1, -2, 0.5F, -1, 0, 1, 0.25F, 2, -0.5F};  // three classes of three features
const std::vector<float> kIntercepts = {0.5F, 0, -1};

/// Scaler, LinearClassifier, Normalizer, ZipMap.
std::string classifier(const Message& labels, const std::string& transform) {
  OnnxParts p;
  p.inputs = {named_value("X", {"batch", "3"})};
  p.nodes = {
      ml_node("Scaler", {"X"}, {"scaled"},
              {floats_attribute("offset", {1, 2, 3}), floats_attribute("scale", {2, 1, 0.5F})}),
      ml_node("LinearClassifier", {"scaled"}, {"label", "scores"},
              {floats_attribute("coefficients", kCoefficients), floats_attribute("intercepts", kIntercepts), labels,
               text_attribute("post_transform", transform), int_attribute("multi_class", 1)}),
      ml_node("Normalizer", {"scores"}, {"probabilities"}, {text_attribute("norm", "L1")}),
      ml_node("ZipMap", {"probabilities"}, {"output_probability"}, {ints_attribute("classlabels_int64s", {0, 1, 2})})};
  p.outputs = {typed_value("label", {-1}, 7), map_output("output_probability")};
  return onnx_file(p);
}

Numbers scores(const Numbers& x) {
  const double scaled[] = {(x[0] - 1) * 2, x[1] - 2, (x[2] - 3) * 0.5};
  Numbers out;
  for (std::size_t k = 0; k < 3; ++k) {
    double sum = kIntercepts[k];
    for (std::size_t i = 0; i < 3; ++i) sum += kCoefficients[3 * k + i] * scaled[i];
    out.push_back(sum);
  }
  return out;
}

TEST(ConvertMl, LinearClassifiersGiveLabelsAndATensorOfProbabilities) {
  const Numbers x = {0.5, 3, 1, 2, -1, 4};
  for (const std::string transform : {"LOGISTIC", "SOFTMAX", "NONE"}) {
    convert::Report report;
    const auto result = converted(classifier(ints_attribute("classlabels_ints", {0, 1, 2}), transform), &report);
    ASSERT_TRUE(result.ok()) << result.status().message();
    const auto got = outputs_of(result->model, {{"X", x}}, 2);
    Numbers labels, probabilities;
    for (std::size_t row = 0; row < 2; ++row) {
      Numbers s = scores(
          {x.begin() + static_cast<std::ptrdiff_t>(3 * row), x.begin() + static_cast<std::ptrdiff_t>(3 * row + 3)});
      labels.push_back(static_cast<double>(std::max_element(s.begin(), s.end()) - s.begin()));
      double sum = 0;
      for (double& one : s) {
        if (transform == "LOGISTIC") one = 1 / (1 + std::exp(-one));
        if (transform == "SOFTMAX") one = std::exp(one);
        sum += std::abs(one);
      }
      for (const double one : s) probabilities.push_back(one / sum);
    }
    expect_near(got[0], labels);
    expect_near(got[1], probabilities);
    EXPECT_EQ(result->model.graph.of_kind(ValueKind::parameter).size(), 2u);
    EXPECT_TRUE(result->model.graph.find_value("LinearClassifier_node/coefficients").valid());
  }
  convert::Report report;
  ASSERT_TRUE(
      converted(classifier(texts_attribute("classlabels_strings", {"ant", "bee", "cat"}), "SOFTMAX"), &report).ok());
  EXPECT_TRUE(std::ranges::count(report.notes,
                                 "the output \"label\" is the number of a class here, in the order ant, bee, cat"));
  EXPECT_NE(converted(classifier(ints_attribute("classlabels_ints", {0, 1}), "NONE"))
                .status()
                .message()
                .find("it has 3 scores for 2 classes"),
            std::string::npos);
  EXPECT_NE(converted(classifier(ints_attribute("classlabels_ints", {0, 1, 2}), "PROBIT"))
                .status()
                .message()
                .find("its post_transform is PROBIT"),
            std::string::npos);
}

TEST(ConvertMl, ALinearClassifierOfLabelsAlone) {
  OnnxParts p;
  p.inputs = {named_value("X", {"batch", "3"})};
  p.nodes = {ml_node("LinearClassifier", {"X"}, {"label"},
                     {floats_attribute("coefficients", kCoefficients), ints_attribute("classlabels_ints", {5, 6, 7}),
                      text_attribute("post_transform", "SOFTMAX")})};
  p.outputs = {typed_value("label", {-1}, 7)};
  const auto result = converted(onnx_file(p));
  ASSERT_TRUE(result.ok()) << result.status().message();
  expect_near(outputs_of(result->model, {{"X", {0.5, 3, 1, 3, -1, 0}}}, 2)[0], {7, 5});
}

TEST(ConvertMl, TrainedCoefficientsGoBackIntoTheirAttributes) {
  const TemporaryFolder folder;
  const std::string file = classifier(ints_attribute("classlabels_ints", {0, 1, 2}), "SOFTMAX");
  const std::string source = folder.write("in.onnx", file), out = folder.file("out.onnx");
  auto result = converted(file);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::vector<float> now = {9, 8, 7, 6, 5, 4, 3, 2, 1};
  const ValueId weight = result->model.graph.find_value("LinearClassifier_node/coefficients");
  ASSERT_TRUE(result->model.copy_weight(weight, std::as_bytes(std::span(now))).ok());
  const auto report = convert::export_onnx(os::system_files(), out, result->model, source);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto again = convert::convert_onnx(std::filesystem::path(out));
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Numbers x = {0.5, 3, 1};
  EXPECT_EQ(outputs_of(again->model, {{"X", x}}, 1), outputs_of(result->model, {{"X", x}}, 1));
}

/// One node of ai.onnx.ml over floats [batch, 3].
Numbers run_node(const std::string& op, const std::vector<Message>& attributes, const Numbers& x) {
  OnnxParts p;
  p.inputs = {named_value("X", {"batch", "3"})};
  p.nodes = {ml_node(op, {"X"}, {"Y"}, attributes)};
  p.outputs = {float_value("Y", {})};
  const auto result = converted(onnx_file(p));
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? outputs_of(result->model, {{"X", x}}, static_cast<std::int64_t>(x.size() / 3))[0] : Numbers{};
}

TEST(ConvertMl, WhatPreparesInputs) {
  const Numbers x = {3, -4, 0, 0, 0, 0};
  expect_near(run_node("Normalizer", {text_attribute("norm", "L2")}, x), {0.6, -0.8, 0, 0, 0, 0});
  expect_near(run_node("Normalizer", {text_attribute("norm", "L1")}, x), {3.0 / 7, -4.0 / 7, 0, 0, 0, 0});
  expect_near(run_node("Normalizer", {text_attribute("norm", "MAX")}, x), {1, -4.0 / 3, 0, 0, 0, 0});
  expect_near(
      run_node("Imputer",
               {floats_attribute("imputed_value_floats", {7, 8, 9}), float_attribute("replaced_value_float", 0)}, x),
      {3, -4, 9, 7, 8, 9});
  expect_near(
      run_node("Imputer", {floats_attribute("imputed_value_floats", {5}), float_attribute("replaced_value_float", NAN)},
               {NAN, 1, 2}),
      {5, 1, 2});
  expect_near(run_node("OneHotEncoder", {ints_attribute("cats_int64s", {3, 0})}, {3, 1, 0}), {1, 0, 0, 0, 0, 1});
  expect_near(run_node("LinearRegressor",
                       {floats_attribute("coefficients", {1, 2, 3, 4, 5, 6}),
                        floats_attribute("intercepts", {0.5F, -1}), int_attribute("targets", 2)},
                       {1, 10, 100}),
              {321.5, 653});
}

TEST(ConvertMl, ScoresOfAttentionWithASoftcapAndLengthsOfCausalItems) {
  const std::int64_t heads = 1, queries = 2, keys = 4, size = 2;
  const auto node = [&](const std::vector<Message>& attributes, bool lengths, const std::vector<std::string>& outputs) {
    OnnxParts p;
    p.opset = 24;
    p.inputs = {float_value("q", {1, heads, queries, size}), float_value("k", {1, heads, keys, size}),
                float_value("v", {1, heads, keys, size})};
    if (lengths) p.inputs.push_back(typed_value("n", {1}, 7));
    p.nodes = {onnx_node("Attention", {"q", "k", "v", "", "", "", lengths ? "n" : ""}, outputs, attributes)};
    for (const std::string& output : outputs) {
      if (!output.empty()) p.outputs.push_back(float_value(output, {}));
    }
    return onnx_file(p);
  };
  const std::map<std::string, Numbers> in = {
      {"q", {1, 2, -1, 0.5}}, {"k", {1, 0, 0, 1, 1, 1, 2, -1}}, {"v", {1, 2, 3, 4, 5, 6, 7, 8}}, {"n", {3}}};
  const auto raw = [&](std::size_t i, std::size_t j) {
    return (in.at("q")[2 * i] * in.at("k")[2 * j] + in.at("q")[2 * i + 1] * in.at("k")[2 * j + 1]) / std::sqrt(2.0);
  };
  Numbers plain, capped;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      plain.push_back(raw(i, j));
      capped.push_back(0.5 * std::tanh(raw(i, j) / 0.5));
    }
  }
  for (const std::int64_t mode : {0, 2}) {
    const auto result = converted(node({float_attribute("softcap", 0.5F), int_attribute("qk_matmul_output_mode", mode)},
                                       false, {"y", "", "", "s"}));
    ASSERT_TRUE(result.ok()) << result.status().message();
    expect_near(outputs_of(result->model, in, 1)[1], mode == 0 ? plain : capped);
  }
  // Three keys count; the last query sees them all, the one before it two.
  const auto result = converted(node({int_attribute("is_causal", 1)}, true, {"y"}));
  ASSERT_TRUE(result.ok()) << result.status().message();
  Numbers wanted;
  for (std::size_t i = 0; i < 2; ++i) {
    double sum = 0, y[2] = {0, 0};
    for (std::size_t j = 0; j < i + 2; ++j) {
      const double weight = std::exp(raw(i, j));
      sum += weight;
      for (std::size_t c = 0; c < 2; ++c) y[c] += weight * in.at("v")[2 * j + c];
    }
    wanted.insert(wanted.end(), {y[0] / sum, y[1] / sum});
  }
  expect_near(outputs_of(result->model, in, 1)[0], wanted);
}

std::string raw_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ConvertMl, WeightsInExternalDataGoToAFileOfTheirOwn) {
  const TemporaryFolder folder;
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {0.5F, -0.5F};
  folder.write("weights.bin", std::string(16, 'x') + raw_of(w) + raw_of(b));
  OnnxParts p;
  p.inputs = {named_value("x", {"batch", "3"})};
  p.initializers = {external_tensor("w", {3, 2}, "weights.bin", "16", "24"),
                    external_tensor("b", {2}, "weights.bin", "40", ""),
                    external_tensor("unused", {2}, "weights.bin", "0", "8")};
  p.nodes = {onnx_node("Gemm", {"x", "w", "b"}, {"y"})};
  p.outputs = {float_value("y", {-1, 2})};
  const std::string source = folder.write("in.onnx", onnx_file(p)), out = folder.file("out.onnx");
  auto result = convert::convert_onnx(std::filesystem::path(source));
  ASSERT_TRUE(result.ok()) << result.status().message();
  Model& model = result->model;
  const std::vector<float> bias = {3, 4};
  ASSERT_TRUE(model.copy_weight(model.graph.find_value("b"), std::as_bytes(std::span(bias))).ok());
  const std::string before = contents(folder.file("weights.bin"));
  auto report = convert::export_onnx(os::system_files(), out, model, source);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->files, (std::vector<std::string>{out, out + ".data"}));
  EXPECT_EQ(contents(folder.file("weights.bin")), before);
  const auto again = convert::convert_onnx(std::filesystem::path(out));
  ASSERT_TRUE(again.ok()) << again.status().message();
  expect_near(outputs_of(again->model, {{"x", {1, 1, 1}}}, 1)[0], {9 + 3, 12 + 4});
  EXPECT_NE(contents(out + ".data").find(std::string(8, 'x')), std::string::npos) << "what is not trained goes along";
  // The source's own data is not written over.
  std::filesystem::rename(folder.file("weights.bin"), folder.file("two.onnx.data"));
  p.initializers = {external_tensor("w", {3, 2}, "two.onnx.data", "16", "24"),
                    external_tensor("b", {2}, "two.onnx.data", "40", "")};
  const std::string other = folder.write("in2.onnx", onnx_file(p));
  const auto refused = convert::export_onnx(os::system_files(), folder.file("two.onnx"), model, other);
  EXPECT_NE(refused.status().message().find("has its own; export to another folder or name."), std::string::npos);
  EXPECT_EQ(contents(folder.file("two.onnx.data")), before);
}

TEST(ConvertMl, LargeModelsAreWrittenWithExternalData) {
  const TemporaryFolder folder;
  std::vector<float> w(64 * 8);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
  OnnxParts p;
  p.inputs = {named_value("x", {"batch", "64"})};
  p.initializers = {float_tensor("w", {64, 8}, raw_of(w))};
  p.nodes = {onnx_node("MatMul", {"x", "w"}, {"y"})};
  p.outputs = {float_value("y", {-1, 8})};
  const auto result = converted(onnx_file(p));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const std::string out = folder.file("out.onnx");
  const auto report = convert::write_onnx(os::system_files(), out, result->model, 1000);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->files.size(), 2u);
  EXPECT_EQ(contents(out + ".data"), raw_of(w));
  EXPECT_EQ(contents(out).find(raw_of(w)), std::string::npos);
  const auto again = convert::convert_onnx(std::filesystem::path(out));
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Numbers x(64, 0.5);
  EXPECT_EQ(outputs_of(again->model, {{"x", x}}, 1), outputs_of(result->model, {{"x", x}}, 1));
}

}  // namespace
}  // namespace graft::test::convert_ml_test
