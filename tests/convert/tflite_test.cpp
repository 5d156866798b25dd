// TensorFlow Lite files: what operators give, quantized numbers, weights written back, bad files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/os/file.h"
#include "tests/support/files/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/files/temporary_folder.h"
#include "tests/support/files/tflite_run.h"
#include "tests/support/files/tflite_writer.h"
#include "tools/convert/tflite/export_tflite.h"

namespace graft::test::convert_tflite_test {
namespace {

using namespace tflite_run;
using B = tfl::BuiltinOperator;

void expect_near(const Floats& got, const Floats& wanted, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << "element " << i;
}

Floats waves(std::size_t count, double step = 0.7) {
  Floats out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::sin(step * static_cast<double>(i) + 0.3));
  return out;
}
std::vector<float> as_floats(const Floats& values) { return {values.begin(), values.end()}; }

/// By the definition: images [h, w, c], weights [o, kh, kw, c], SAME padding.
Floats convolved(const Floats& x, int h, int w, int c, const Floats& k, int o, int kh, int kw, int stride,
                 const Floats& bias) {
  const int oh = (h + stride - 1) / stride, ow = (w + stride - 1) / stride;
  const int top = std::max((oh - 1) * stride + kh - h, 0) / 2, left = std::max((ow - 1) * stride + kw - w, 0) / 2;
  Floats y;
  for (int i = 0; i < oh; ++i) {
    for (int j = 0; j < ow; ++j) {
      for (int n = 0; n < o; ++n) {
        double sum = bias[static_cast<std::size_t>(n)];
        for (int a = 0; a < kh; ++a) {
          for (int b = 0; b < kw; ++b) {
            const int row = i * stride + a - top, column = j * stride + b - left;
            if (row < 0 || row >= h || column < 0 || column >= w) continue;
            for (int m = 0; m < c; ++m) {
              sum += x[static_cast<std::size_t>((row * w + column) * c + m)] *
                     k[static_cast<std::size_t>(((n * kh + a) * kw + b) * c + m)];
            }
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

tfl::Conv2DOptionsT conv_options(int stride, tfl::Activation activation = tfl::Activation::NONE) {
  tfl::Conv2DOptionsT o;
  o.padding = tfl::Padding::SAME;
  o.stride_h = o.stride_w = stride;
  o.activation = activation;
  return o;
}

TEST(ConvertTflite, ConvolutionsPadAsTheFormatSaysAndKeepTheirOrderOfAxes) {
  const Floats x = waves(5 * 4 * 2), k = waves(3 * 3 * 2 * 2, 1.1), bias = {0.1, -0.2, 0.3};
  TfliteWriter w;
  const int in = w.tensor("x", {-1, 5, 4, 2}), out = w.tensor("y", {-1, 3, 2, 3});
  const int weight = w.floats("w", {3, 3, 2, 2}, as_floats(k)), b = w.floats("b", {3}, as_floats(bias));
  w.op(B::CONV_2D, {in, weight, b}, {out}, conv_options(2));
  const std::string file = w.file({in}, {out});
  const auto result = converted(file);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Graph& graph = result->model.graph;
  EXPECT_EQ(graph.value(graph.find_value("x")).shape, (Shape{Dim::symbol("batch"), 5, 4, 2}));
  EXPECT_EQ(graph.value(graph.find_value("w")).shape, (Shape{3, 3, 2, 2}));
  EXPECT_EQ(graph.value(graph.find_value("w")).kind, ValueKind::parameter);
  EXPECT_EQ(graph.nodes().size(), 1u);  // nothing is transposed
  expect_near(output_of(result->model, {{"x", x}}), convolved(x, 5, 4, 2, k, 3, 3, 2, 2, bias));
}

TEST(ConvertTflite, DepthwiseConvolutionsHaveAGroupForEachChannel) {
  // [1, 2, 2, 4]: two channels, each of which gives two.
  const Floats x = waves(3 * 3 * 2), k = waves(2 * 2 * 4, 1.3), bias = {0, 0, 0, 0};
  TfliteWriter w;
  const int in = w.tensor("x", {1, 3, 3, 2}), out = w.tensor("y", {1, 3, 3, 4});
  const int weight = w.floats("w", {1, 2, 2, 4}, as_floats(k));
  tfl::DepthwiseConv2DOptionsT o;
  o.padding = tfl::Padding::SAME;
  o.stride_h = o.stride_w = 1;
  o.depth_multiplier = 2;
  o.activation = tfl::Activation::RELU6;
  w.op(B::DEPTHWISE_CONV_2D, {in, weight}, {out}, o);
  Floats wanted(3 * 3 * 4);
  for (std::size_t n = 0; n < 4; ++n) {
    Floats image, kernel;
    for (std::size_t i = 0; i < 9; ++i) image.push_back(x[2 * i + n / 2]);
    for (std::size_t i = 0; i < 4; ++i) kernel.push_back(k[4 * i + n]);
    const Floats y = convolved(image, 3, 3, 1, kernel, 1, 2, 2, 1, {0});
    for (std::size_t i = 0; i < 9; ++i) wanted[4 * i + n] = std::clamp(y[i], 0.0, 6.0);
  }
  expect_near(run(w.file({in}, {out}), {{"x", x}}), wanted);
}

TEST(ConvertTflite, TransposedConvolutionsSpreadWhatConvolutionsGather) {
  // Weights [out, kh, kw, in]; SAME and a stride of 2: pixel i of the result takes what lies at i = 2 a + b - begin.
  const Floats x = waves(2 * 2), k = waves(3 * 3, 0.9);
  TfliteWriter w;
  const int shape = w.ints("shape", {1, 4, 4, 1}), weight = w.floats("w", {1, 3, 3, 1}, as_floats(k));
  const int in = w.tensor("x", {1, 2, 2, 1}), out = w.tensor("y", {1, 4, 4, 1});
  tfl::TransposeConvOptionsT o;
  o.padding = tfl::Padding::SAME;
  o.stride_h = o.stride_w = 2;
  w.op(B::TRANSPOSE_CONV, {shape, weight, in}, {out}, o);
  Floats wanted(16, 0.0);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < 3; ++b) {
          const int row = 2 * i + a, column = 2 * j + b;  // (2 - 1) * 2 + 3 - 4 = 1 to cut, at the end
          if (row >= 4 || column >= 4) continue;
          wanted[static_cast<std::size_t>(4 * row + column)] +=
              x[static_cast<std::size_t>(2 * i + j)] * k[static_cast<std::size_t>(3 * a + b)];
        }
      }
    }
  }
  expect_near(run(w.file({in}, {out}), {{"x", x}}), wanted);
}

TEST(ConvertTflite, SlicesReadTheirMasks) {
  const auto sliced = [](std::vector<std::int32_t> begin, std::vector<std::int32_t> end, std::vector<std::int32_t> step,
                         const tfl::StridedSliceOptionsT& options) {
    TfliteWriter w;
    const int in = w.tensor("x", {2, 3, 4}), out = w.tensor("y", {1});
    w.op(B::STRIDED_SLICE, {in, w.ints("b", begin), w.ints("e", end), w.ints("s", step)}, {out}, options);
    Floats x;
    for (int i = 0; i < 24; ++i) x.push_back(i);
    return run(w.file({in}, {out}), {{"x", x}});
  };
  tfl::StridedSliceOptionsT plain;
  EXPECT_EQ(sliced({0, 1, 1}, {2, 3, 4}, {1, 1, 2}, plain), (Floats{5, 7, 9, 11, 17, 19, 21, 23}));
  tfl::StridedSliceOptionsT shrunk;  // x[1, :, -1]
  shrunk.shrink_axis_mask = 5;
  shrunk.begin_mask = shrunk.end_mask = 2;
  EXPECT_EQ(sliced({1, 7, -1}, {2, 7, 0}, {1, 1, 1}, shrunk), (Floats{15, 19, 23}));
  tfl::StridedSliceOptionsT dots;  // x[..., None, ::-1][only the last rows stay whole]
  dots.ellipsis_mask = 1;
  dots.new_axis_mask = 2;
  dots.begin_mask = dots.end_mask = 4;
  const Floats reversed = sliced({0, 0, 0}, {0, 0, 0}, {1, 1, -1}, dots);
  ASSERT_EQ(reversed.size(), 24u);
  EXPECT_EQ(Floats(reversed.begin(), reversed.begin() + 4), (Floats{3, 2, 1, 0}));
  // x[-4::-1, 0, 0] of two rows begins before the first: nothing, as in Python. x[-2::-1, 0, 0] is the first.
  tfl::StridedSliceOptionsT back;
  back.end_mask = 1;
  back.shrink_axis_mask = 6;
  EXPECT_EQ(sliced({-4, 0, 0}, {0, 1, 1}, {-1, 1, 1}, back), Floats{});
  EXPECT_EQ(sliced({-2, 0, 0}, {0, 1, 1}, {-1, 1, 1}, back), Floats{0});
}

TEST(ConvertTflite, NegativeIndicesAreOfNoOneHotClass) {
  TfliteWriter w;
  const int x = w.tensor("x", {4}, tfl::TensorType::INT32), y = w.tensor("y", {4, 2});
  const int depth = w.constant<std::int32_t>("depth", {}, tfl::TensorType::INT32, {2});
  tfl::OneHotOptionsT options;
  options.axis = -1;
  w.op(B::ONE_HOT, {x, depth, w.floats("on", {}, {5}), w.floats("off", {}, {-1})}, {y}, options);
  EXPECT_EQ(run(w.file({x}, {y}), {{"x", {-1, 0, 1, 2}}}), (Floats{-1, -1, 5, -1, -1, 5, -1, -1}));
}

struct OneOp {
  const char* name;
  B op;
  std::vector<int> dims;
  std::vector<std::int32_t> second;  ///< a constant second input, unless empty
  Floats x, wanted;
};

TEST(ConvertTflite, OperatorsOfOneInput) {
  const std::vector<OneOp> cases = {
      {"relu6", B::RELU6, {4}, {}, {-1, 3, 6, 7}, {0, 3, 6, 6}},
      {"relu_n1_to_1", B::RELU_N1_TO_1, {3}, {}, {-2, 0.5, 2}, {-1, 0.5, 1}},
      {"hard_swish", B::HARD_SWISH, {3}, {}, {-4, 1, 4}, {0, 1 * 4.0 / 6, 4}},
      {"rsqrt", B::RSQRT, {2}, {}, {4, 16}, {0.5, 0.25}},
      {"square", B::SQUARE, {2}, {}, {-3, 2}, {9, 4}},
      {"mean", B::MEAN, {2, 2}, {1}, {1, 3, 5, 9}, {2, 7}},
      {"sum of a negative axis", B::SUM, {2, 2}, {-2}, {1, 3, 5, 9}, {6, 12}},
      {"transpose", B::TRANSPOSE, {2, 3}, {1, 0}, {0, 1, 2, 3, 4, 5}, {0, 3, 1, 4, 2, 5}},
      {"reverse", B::REVERSE_V2, {2, 3}, {1}, {0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}},
      {"arg_max", B::ARG_MAX, {2, 3}, {1}, {0, 5, 2, 3, 4, 5}, {1, 2}},
      {"tile", B::TILE, {2}, {2}, {1, 2}, {1, 2, 1, 2}},
      {"l2", B::L2_NORMALIZATION, {1, 2}, {}, {3, 4}, {0.6, 0.8}},
      {"reshape", B::RESHAPE, {2, 2}, {-1}, {1, 2, 3, 4}, {1, 2, 3, 4}},
      {"dequantize", B::DEQUANTIZE, {2}, {}, {1, 2}, {1, 2}},
  };
  for (const OneOp& c : cases) {
    SCOPED_TRACE(c.name);
    TfliteWriter w;
    const int in = w.tensor("x", c.dims);
    const int out = w.tensor("y", {1}, c.op == B::ARG_MAX ? tfl::TensorType::INT32 : tfl::TensorType::FLOAT32);
    std::vector<int> inputs = {in};
    if (!c.second.empty()) inputs.push_back(w.ints("second", c.second));
    w.op(c.op, inputs, {out});
    expect_near(run(w.file({in}, {out}), {{"x", c.x}}), c.wanted);
  }
}

/// Keras writes its LSTM layers so: gates apart, states that nothing gives, cells limited.
TEST(ConvertTflite, RecurrentLayersLimitTheirCells) {
  constexpr int kSteps = 5, kFeatures = 2, kUnits = 3;
  const Floats x = waves(kSteps * kFeatures);
  Floats w[4], r[4], b[4];  // input, forget, cell, output
  TfliteWriter writer;
  const int in = writer.tensor("x", {1, kSteps, kFeatures}), out = writer.tensor("y", {1, kSteps, kUnits});
  std::vector<int> operands(24, -1);
  operands[0] = in;
  for (int g = 0; g < 4; ++g) {
    const auto at = static_cast<std::size_t>(g);
    w[g] = waves(kUnits * kFeatures, 1.1 + g);
    r[g] = waves(kUnits * kUnits, 0.4 + g);
    b[g] = {0.5 + g, 0.25, -0.5};
    operands[1 + at] = writer.floats(cat("w", g), {kUnits, kFeatures}, as_floats(w[g]));
    operands[5 + at] = writer.floats(cat("r", g), {kUnits, kUnits}, as_floats(r[g]));
    operands[12 + at] = writer.floats(cat("b", g), {kUnits}, as_floats(b[g]));
  }
  for (const int state : {18, 19}) {
    operands[static_cast<std::size_t>(state)] = writer.tensor(cat("state", state), {1, kUnits});
    writer.graph().tensors.back()->is_variable = true;
  }
  tfl::UnidirectionalSequenceLSTMOptionsT options;
  options.activation = tfl::Activation::TANH;
  options.cell_clip = 0.75F;
  writer.op(B::UNIDIRECTIONAL_SEQUENCE_LSTM, operands, {out}, options);
  Floats h(kUnits), c(kUnits), wanted;
  bool limited = false;
  for (std::size_t t = 0; t < kSteps; ++t) {
    const Floats before = h;
    for (std::size_t j = 0; j < kUnits; ++j) {
      const auto sum = [&](int g) {
        double all = b[g][j];
        for (std::size_t k = 0; k < kFeatures; ++k) all += w[g][j * kFeatures + k] * x[t * kFeatures + k];
        for (std::size_t k = 0; k < kUnits; ++k) all += r[g][j * kUnits + k] * before[k];
        return all;
      };
      const auto gate = [&](int g) { return 1 / (1 + std::exp(-sum(g))); };
      const double cell = gate(1) * c[j] + gate(0) * std::tanh(sum(2));
      c[j] = std::clamp(cell, -0.75, 0.75);
      limited |= c[j] != cell;
      h[j] = gate(3) * std::tanh(c[j]);
      wanted.push_back(h[j]);
    }
  }
  EXPECT_TRUE(limited);
  expect_near(run(writer.file({in}, {out}), {{"x", x}}), wanted);
  // What is refused is said for its own reason, although nothing makes the states.
  writer.graph().operators.back()->inputs[9] = operands[5];
  convert::Report report;
  EXPECT_FALSE(converted(writer.file({in}, {out}), {}, &report).ok());
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("peepholes"), std::string::npos) << report.problems[0];
}

TEST(ConvertTflite, PadsPacksSplitsAndMultiplies) {
  TfliteWriter w;
  const int x = w.tensor("x", {1, 4}), padded = w.tensor("p", {1, 6}), a = w.tensor("a", {1, 3}),
            b = w.tensor("b", {1, 3}), packed = w.tensor("k", {1, 2, 3}), y = w.tensor("y", {1, 2, 2});
  const int pads = w.constant<std::int32_t>("pads", {2, 2}, tfl::TensorType::INT32, {0, 0, 1, 1});
  const int axis = w.constant<std::int32_t>("axis", {}, tfl::TensorType::INT32, {1});
  w.op(B::PAD, {x, pads}, {padded});
  tfl::SplitOptionsT split;
  split.num_splits = 2;
  w.op(B::SPLIT, {axis, padded}, {a, b}, split);
  tfl::PackOptionsT pack;
  pack.values_count = 2;
  pack.axis = 1;
  w.op(B::PACK, {a, b}, {packed}, pack);
  tfl::BatchMatMulOptionsT matmul;
  matmul.adj_y = true;
  w.op(B::BATCH_MATMUL, {packed, packed}, {y}, matmul);
  // [0, 1, 2] and [3, 4, 0], by each other.
  expect_near(run(w.file({x}, {y}), {{"x", {1, 2, 3, 4}}}), {5, 4, 4, 25});
}

/// conv (per channel), fully connected (per tensor), softmax: quantized as the converter of the format does.
struct Quantized {
  std::string floats, ints;
  Floats x;
};
Quantized quantized_network() {
  const float scales[2] = {0.02F, 0.01F}, in_scale = 1.0F / 128, mid_scale = 0.03F, dense_scale = 0.015F,
              out_scale = 0.05F;
  std::vector<std::int8_t> kernel, dense;
  for (int i = 0; i < 2 * 4; ++i) kernel.push_back(static_cast<std::int8_t>(i * 37 % 200 - 100));
  for (int i = 0; i < 3 * 8; ++i) dense.push_back(static_cast<std::int8_t>(i * 53 % 220 - 110));
  const std::vector<std::int32_t> kernel_bias = {300, -500}, dense_bias = {100, 0, -200};
  std::vector<float> kernel_f, dense_f, kernel_bias_f, dense_bias_f;
  for (std::size_t i = 0; i < kernel.size(); ++i) kernel_f.push_back(scales[i / 4] * static_cast<float>(kernel[i]));
  for (const std::int8_t q : dense) dense_f.push_back(dense_scale * static_cast<float>(q));
  for (std::size_t i = 0; i < 2; ++i) {
    kernel_bias_f.push_back(in_scale * scales[i] * static_cast<float>(kernel_bias[i]));
  }
  for (const std::int32_t q : dense_bias) dense_bias_f.push_back(mid_scale * dense_scale * static_cast<float>(q));
  Quantized out;
  for (const bool whole : {false, true}) {
    TfliteWriter w;
    const auto type = whole ? tfl::TensorType::INT8 : tfl::TensorType::FLOAT32;
    const int x = w.tensor("x", {1, 2, 2, 1}, type), mid = w.tensor("mid", {1, 2, 2, 2}, type),
              y = w.tensor("y", {1, 3}, type);
    int k, kb, d, db;
    if (whole) {
      k = w.constant("k", {2, 2, 2, 1}, type, kernel);
      w.quantize(k, {scales[0], scales[1]}, {0, 0}, 0);
      kb = w.constant("kb", {2}, tfl::TensorType::INT32, kernel_bias);
      w.quantize(kb, {in_scale * scales[0], in_scale * scales[1]}, {0, 0}, 0);
      d = w.constant("d", {3, 8}, type, dense);
      w.quantize(d, {dense_scale}, {0});
      db = w.constant("db", {3}, tfl::TensorType::INT32, dense_bias);
      w.quantize(db, {mid_scale * dense_scale}, {0});
      w.quantize(x, {in_scale}, {0});
      w.quantize(mid, {mid_scale}, {-128});
      w.quantize(y, {out_scale}, {10});
    } else {
      k = w.floats("k", {2, 2, 2, 1}, kernel_f);
      kb = w.floats("kb", {2}, kernel_bias_f);
      d = w.floats("d", {3, 8}, dense_f);
      db = w.floats("db", {3}, dense_bias_f);
    }
    w.op(B::CONV_2D, {x, k, kb}, {mid}, conv_options(1, tfl::Activation::RELU));
    w.op(B::FULLY_CONNECTED, {mid, d, db}, {y}, tfl::FullyConnectedOptionsT());
    (whole ? out.ints : out.floats) = w.file({x}, {y});
  }
  for (const int q : {10, -40, 90, 127}) out.x.push_back(q / 128.0);
  return out;
}

TEST(ConvertTflite, QuantizedWeightsBecomeTheFloatsThatTheyStandFor) {
  const Quantized q = quantized_network();
  convert::Report report;
  const auto result = converted(q.ints, {}, &report);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(report.parameters, 4u);
  ASSERT_GE(report.notes.size(), 3u);
  EXPECT_NE(report.notes[0].find("dequantized"), std::string::npos);
  expect_near(output_of(result->model, {{"x", q.x}}), run(q.floats, {{"x", q.x}}), 1e-6);
}

TEST(ConvertTflite, ValuesOnTheFilesGridAreWithinItsStepOfTheFloats) {
  const Quantized q = quantized_network();
  const Floats exact = run(q.floats, {{"x", q.x}}), stepped = run(q.ints, {{"x", q.x}}, {.keep_grid = true});
  ASSERT_EQ(stepped.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double steps = stepped[i] / 0.05;  // the output's scale
    EXPECT_NEAR(steps, std::round(steps), 1e-4);
    EXPECT_LE(std::abs(steps), 138.0);
    // Half a step of its own, and that of the hidden values times eight weights of 1.65 at most.
    EXPECT_NEAR(stepped[i], std::clamp(exact[i], -6.9, 5.85), 0.025 + 8 * 1.65 * 0.015);
  }
}

std::string contents_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ConvertTflite, WeightsGoBackIntoTheFile) {
  const Quantized q = quantized_network();
  for (const std::string* file : {&q.floats, &q.ints}) {
    TemporaryFolder folder;
    const std::string source = folder.write("in.tflite", *file), out = folder.file("out.tflite");
    auto result = converted(*file);
    ASSERT_TRUE(result.ok());
    Model& model = result->model;
    ASSERT_TRUE(convert::export_tflite(os::system_files(), out, model, source).ok());
    EXPECT_EQ(contents_of_file(out), *file);  // nothing was trained
    // Larger numbers than the scales hold, and new biases.
    const ValueId k = model.graph.find_value("k"), kb = model.graph.find_value("kb");
    std::vector<float> larger = {5, -4, 3, 2, 0.5F, 0.25F, -0.75F, 1}, bias = {0.125F, -0.25F};
    ASSERT_TRUE(model.copy_weight(k, std::as_bytes(std::span(larger))).ok());
    ASSERT_TRUE(model.copy_weight(kb, std::as_bytes(std::span(bias))).ok());
    const auto report = convert::export_tflite(os::system_files(), out, model, source);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->tensors, 4u);
    EXPECT_EQ(report->notes.size(), file == &q.ints ? 1u : 0u);
    const std::string bytes = contents_of_file(out);
    EXPECT_EQ(bytes.size(), file->size());
    // Half a step of a weight (5 / 254, 0.005) times what is under it (2.1), for four pixels, times weights of 1.65.
    const double most = file == &q.ints ? 4 * 1.65 * 2.1 * (5.0 / 254 + 0.005) : 1e-6;
    expect_near(run(bytes, {{"x", q.x}}), output_of(model, {{"x", q.x}}), most);
  }
}

TEST(ConvertTflite, TensorsThatShareABufferGetTheirOwnWhereTheyDiffer) {
  TfliteWriter w;
  const int x = w.tensor("x", {2, 3}), y = w.tensor("y", {2, 2}), z = w.tensor("z", {2, 2}), u = w.tensor("u", {2, 2});
  const std::vector<float> start = {1, 2, 3, 4, 5, 6};
  const int a = w.floats("a", {2, 3}, start), b = w.floats("b", {2, 3}, start), c = w.floats("c", {2, 3}, start);
  for (const int shares : {b, c}) {
    w.graph().tensors[static_cast<std::size_t>(shares)]->buffer =
        w.graph().tensors[static_cast<std::size_t>(a)]->buffer;
  }
  w.op(B::FULLY_CONNECTED, {x, a, -1}, {y}, tfl::FullyConnectedOptionsT{});
  w.op(B::FULLY_CONNECTED, {x, b, -1}, {z}, tfl::FullyConnectedOptionsT{});
  w.op(B::FULLY_CONNECTED, {x, c, -1}, {u}, tfl::FullyConnectedOptionsT{});
  const std::string file = w.file({x}, {y, z, u});
  TemporaryFolder folder;
  const std::string source = folder.write("in.tflite", file), out = folder.file("out.tflite");
  auto result = converted(file);
  ASSERT_TRUE(result.ok()) << result.status().message();
  Model& model = result->model;
  const std::vector<float> now = {-1, 0.5F, 2, 8, 0, 3};
  const auto weights = [&](const std::string& name) {
    const auto read = converted(contents_of_file(out));
    EXPECT_TRUE(read.ok()) << read.status().message();
    const auto bytes = *read->model.weight(read->model.graph.find_value(name));
    std::vector<float> floats(bytes.size() / 4);
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return floats;
  };
  const auto set = [&](const char* name) {
    ASSERT_TRUE(model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(now))).ok());
  };
  set("a");
  auto report = convert::export_tflite(os::system_files(), out, model, source);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->notes,
            std::vector<std::string>{"1 buffers were added for tensors that shared theirs with others."});
  EXPECT_EQ(weights("a"), now);
  EXPECT_EQ(weights("b"), start);
  set("b");
  ASSERT_TRUE(convert::export_tflite(os::system_files(), out, model, source).ok());
  EXPECT_EQ(weights("b"), now);
  EXPECT_EQ(weights("c"), start);
  const Floats in = waves(6);
  expect_near(run(contents_of_file(out), {{"x", in}}), output_of(model, {{"x", in}}));
  set("c");  // all alike again: the buffer that they share is enough
  ASSERT_TRUE(convert::export_tflite(os::system_files(), out, model, source).ok());
  EXPECT_EQ(weights("c"), now);
  EXPECT_EQ(contents_of_file(out).size(), file.size());
}

TEST(ConvertTflite, WhatIsNotSupportedIsToldAllAtOnce) {
  TfliteWriter w;
  const int x = w.tensor("x", {2}), a = w.tensor("a", {2}), b = w.tensor("b", {2});
  w.op(B::SVDF, {x}, {a});
  w.op(B::CUSTOM, {x}, {b});
  w.model().operator_codes.back()->custom_code = "MyOp";
  convert::Report report;
  const auto result = converted(w.file({x}, {a, b}), {}, &report);
  ASSERT_FALSE(result.ok());
  ASSERT_EQ(report.problems.size(), 2u);
  EXPECT_NE(report.problems[0].find("SVDF"), std::string::npos) << report.problems[0];
  EXPECT_NE(report.problems[1].find("CUSTOM MyOp"), std::string::npos) << report.problems[1];
}

// TFLite's CAST takes stored numbers, and graft has what they stand for.
TEST(ConvertTflite, StoredNumbersOfQuantizedTensorsAreNotCast) {
  for (const auto& [scale, zero] : {std::pair(0.5F, 0), {1.0F, 3}, {1.0F, 0}}) {
    TfliteWriter w;
    const int x = w.tensor("x", {1, 2}, tfl::TensorType::INT8), y = w.tensor("y", {1, 2});
    w.quantize(x, {scale}, {zero});
    w.op(B::CAST, {x}, {y});
    const auto result = converted(w.file({x}, {y}));
    EXPECT_EQ(result.ok(), scale == 1 && zero == 0) << scale << " " << zero;
    if (result.ok()) continue;
    EXPECT_NE(result.status().message().find("the stored numbers of the quantized tensor \"x\""), std::string::npos)
        << result.status().message();
  }
}

void expect_sane(const std::string& file, const std::string& what) {
  const auto result = converted(file);
  if (result.ok()) {
    EXPECT_TRUE(validate(result->model.graph).ok()) << what;
    return;
  }
  const std::string& message = result.status().message();
  EXPECT_TRUE(message.ends_with('.')) << what << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
  EXPECT_LT(message.size(), 1000u) << what;
}

TEST(ConvertTflite, EveryTruncation) {
  const std::string file = quantized_network().ints;
  for (std::size_t size = 0; size < file.size(); ++size) expect_sane(file.substr(0, size), cat("cut to ", size));
}

TEST(ConvertTflite, EveryFlippedBit) {
  const std::string file = quantized_network().ints;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    expect_sane(flipped, cat("bit ", bit, " flipped"));
  }
}

/// Float and integer files of one network give the same class, within what eight bits lose.
TEST(ConvertTflite, RealFilesAndTheirTwinsAgree) {
  struct Pair {
    const char *floats, *ints;
    double low, high, tolerance;
  };
  for (const Pair& pair : {Pair{"pretrainedResnet.tflite", "pretrainedResnet_quant.tflite", 0, 255, 0.15},
                           Pair{"kws_ref_model_float32.tflite", "kws_ref_model.tflite", -100, 20, 0.15}}) {
    const std::string folder = "tflite-mlperf-tiny/";
    const std::string floats = test_data(folder + pair.floats), ints = test_data(folder + pair.ints);
    if (!std::filesystem::exists(floats)) GTEST_SKIP() << "no " << floats;
    Floats results[3];
    for (int i = 0; i < 3; ++i) {
      const auto result =
          convert::convert_tflite(os::system_files(), i == 0 ? floats : ints, {.keep_grid = i == 2}, {}, nullptr);
      ASSERT_TRUE(result.ok()) << result.status().message();
      const Graph& graph = result->model.graph;
      const Value& in = graph.value(graph.inputs()[0]);
      Floats x = waves(static_cast<std::size_t>(in.shape[1].value() * in.shape[2].value() * in.shape[3].value()), 0.05);
      for (double& v : x) v = pair.low + (pair.high - pair.low) * (v + 1) / 2;
      results[i] = output_of(result->model, {{in.name, x}});
    }
    expect_near(results[1], results[0], pair.tolerance);
    expect_near(results[2], results[0], pair.tolerance);
  }
}

}  // namespace
}  // namespace graft::test::convert_tflite_test
