// Options of TensorFlow Lite operators: each field of each operator changes what is read, is refused, or is known to be
// without effect.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/support/files/tflite_run.h"
#include "tests/support/files/tflite_writer.h"
#include "tools/convert/tflite/convert_tflite.h"
#include "tools/convert/tflite/tflite_context.h"

namespace graft::test::convert_tflite_options_test {
namespace {

using B = tfl::BuiltinOperator;

/// b: a byte, i: an int, f: a float, v: a list of one int.
struct Field {
  char kind;
  float base, other;
  bool harmless = false;
};
/// Inputs: "2,3" is computed, "=2,3" given floats of that shape, "#1,2" given ints, "-" left out.
struct Case {
  B op;
  int type;  ///< of union BuiltinOptions in the format's schema
  std::vector<std::string> inputs;
  std::vector<Field> fields;
  int outputs = 1;
};

const Field kActivation{'b', 0, 1}, kFlag{'b', 0, 1}, kNoEffect{'b', 0, 1, true}, kStride{'i', 1, 2};

std::vector<std::string> lstm_inputs() {
  std::vector<std::string> inputs(24, "-");
  inputs[0] = "1,2,1";
  for (int i = 1; i <= 8; ++i) inputs[static_cast<std::size_t>(i)] = "=1,1";
  for (int i = 12; i <= 15; ++i) inputs[static_cast<std::size_t>(i)] = "=1";
  return inputs;
}

const std::vector<Case>& cases() {
  const std::vector<Field> pool = {kFlag, kStride, kStride, {'i', 2, 1}, {'i', 2, 1}, kActivation};
  const std::vector<Field> reduce = {kFlag}, arithmetic = {kActivation};
  static const std::vector<Case> all = {
      {B::CONV_2D,
       1,
       {"1,4,4,2", "=2,2,2,2", "=2"},
       {kFlag, kStride, kStride, kActivation, kStride, kStride, kNoEffect}},
      {B::DEPTHWISE_CONV_2D,
       2,
       {"1,4,4,2", "=1,2,2,2", "=2"},
       {kFlag, kStride, kStride, {'i', 1, 2, true}, kActivation, kStride, kStride}},
      {B::AVERAGE_POOL_2D, 5, {"1,4,4,2"}, pool},
      {B::MAX_POOL_2D, 5, {"1,4,4,2"}, pool},
      {B::L2_POOL_2D, 5, {"1,4,4,2"}, pool},
      {B::FULLY_CONNECTED, 8, {"2,3", "=4,3", "=4"}, {kActivation, kFlag, kFlag, kNoEffect, kNoEffect}},
      {B::SOFTMAX, 9, {"2,3"}, {{'f', 1, 2}}},
      {B::CONCATENATION, 10, {"2,3,4", "2,3,4"}, {{'i', 1, 2}, kActivation}},
      {B::ADD, 11, {"2,3", "2,3"}, {kActivation, {'b', 1, 0, true}}},
      {B::SUB, 28, {"2,3", "2,3"}, {kActivation, {'b', 1, 0, true}}},
      {B::MUL, 21, {"2,3", "2,3"}, arithmetic},
      {B::DIV, 29, {"2,3", "2,3"}, arithmetic},
      {B::L2_NORMALIZATION, 12, {"2,3"}, arithmetic},
      {B::LOCAL_RESPONSE_NORMALIZATION, 13, {"1,4,4,2"}, {{'i', 1, 2}, {'f', 1, 2}, {'f', 1, 2}, {'f', 0.5F, 1}}},
      {B::RESIZE_BILINEAR, 15, {"1,4,4,2", "#8,8"}, {{'i', 0, 5, true}, {'i', 0, 5, true}, kFlag, kFlag}},
      {B::RESIZE_NEAREST_NEIGHBOR, 74, {"1,4,4,2", "#8,8"}, {kFlag, kFlag}},
      {B::RESHAPE, 17, {"2,3", "#6"}, {{'v', 6, 3, true}}},
      {B::SPACE_TO_DEPTH, 19, {"1,4,4,2"}, {{'i', 2, 4}}},
      {B::DEPTH_TO_SPACE, 94, {"1,4,4,4"}, {{'i', 2, 1}}},
      {B::GATHER, 23, {"2,3", "#0,1"}, {{'i', 0, 1}, {'i', 0, 1}}},
      {B::MEAN, 27, {"2,3", "#1"}, reduce},
      {B::SUM, 27, {"2,3", "#1"}, reduce},
      {B::REDUCE_MAX, 27, {"2,3", "#1"}, reduce},
      {B::REDUCE_MIN, 27, {"2,3", "#1"}, reduce},
      {B::REDUCE_PROD, 27, {"2,3", "#1"}, reduce},
      {B::SQUEEZE, 30, {"1,3,1"}, {{'v', 0, 2}}},
      {B::STRIDED_SLICE,
       32,
       {"4,3", "#1", "#3", "#1"},
       {{'i', 0, 1}, {'i', 0, 1}, {'i', 0, 1}, {'i', 0, 1}, {'i', 0, 1}, kFlag}},
      {B::SPLIT, 35, {"#0", "2,3"}, {{'i', 2, 3, true}}, 2},
      {B::SPLIT_V, 79, {"2,3", "#1,1", "#0"}, {{'i', 2, 3, true}}, 2},
      {B::CAST, 37, {"2,3"}, {kNoEffect, kNoEffect}},
      {B::ARG_MAX, 40, {"2,3", "#1"}, {kNoEffect}},
      {B::ARG_MIN, 57, {"2,3", "#1"}, {kNoEffect}},
      {B::TRANSPOSE_CONV, 49, {"#1,4,4,2", "=2,2,2,2", "1,4,4,2"}, {kFlag, kStride, kStride, kActivation, kNoEffect}},
      {B::SHAPE, 55, {"2,3"}, {kNoEffect}},
      {B::PACK, 59, {"2,3", "2,3"}, {{'i', 2, 3, true}, {'i', 0, 1}}},
      {B::UNPACK, 64, {"2,2"}, {{'i', 2, 3, true}, {'i', 0, 1}}, 2},
      {B::ONE_HOT, 61, {"#0,1", "#3", "=", "="}, {{'i', -1, 0}}},
      {B::UNIDIRECTIONAL_SEQUENCE_LSTM,
       71,
       lstm_inputs(),
       {{'b', 4, 1}, {'f', 0, 1}, {'f', 0, 1}, kFlag, kNoEffect, kFlag}},
      {B::LEAKY_RELU, 75, {"2,3"}, {{'f', 0.5F, 0.25F}}},
      {B::MIRROR_PAD, 77, {"2,3", "#0,0,1,1"}, {kFlag}},
      {B::BATCH_MATMUL, 101, {"2,2", "2,2"}, {kFlag, kFlag, kNoEffect}},
      {B::CUMSUM, 102, {"2,3", "#1"}, {kFlag, kFlag}},
      {B::GELU, 116, {"2,3"}, {kFlag}},
  };
  return all;
}

std::vector<int> numbers(const std::string& text) {
  std::vector<int> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(std::stoi(one));
  return out;
}

/// One operator whose options' fields have these values; a field beyond those of the case is an int.
std::string file_of(const Case& c, const std::vector<float>& values) {
  TfliteWriter w;
  std::vector<int> inputs, given, outputs;
  for (const std::string& text : c.inputs) {
    const std::string name = "in" + std::to_string(inputs.size());
    if (text == "-") {
      inputs.push_back(-1);
    } else if (text[0] == '#') {
      const std::vector<int> list = numbers(text.substr(1));
      const bool pairs = c.op == B::MIRROR_PAD;
      inputs.push_back(pairs ? w.constant(name, {2, 2}, tfl::TensorType::INT32, list)
                             : w.ints(name, {list.begin(), list.end()}));
    } else if (text[0] == '=') {
      const std::vector<int> dims = numbers(text.substr(1));
      std::size_t count = 1;
      for (const int dim : dims) count *= static_cast<std::size_t>(dim);
      inputs.push_back(w.floats(name, dims, std::vector<float>(count, 1)));
    } else {
      inputs.push_back(w.tensor(name, numbers(text)));
      given.push_back(inputs.back());
    }
  }
  for (int k = 0; k < c.outputs; ++k) outputs.push_back(w.tensor("y" + std::to_string(k), {1}));

  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<tfl::Tensor>> tensors;
  for (const auto& tensor : w.graph().tensors) tensors.push_back(tfl::CreateTensor(b, tensor.get()));
  std::vector<flatbuffers::Offset<tfl::Buffer>> buffers;
  for (const auto& buffer : w.model().buffers) buffers.push_back(tfl::CreateBuffer(b, buffer.get()));
  std::vector<flatbuffers::Offset<flatbuffers::Vector<std::int32_t>>> lists(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    lists[i] = b.CreateVector(std::vector<std::int32_t>{static_cast<std::int32_t>(values[i])});
  }
  const auto start = b.StartTable();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<flatbuffers::voffset_t>(4 + 2 * i);
    const char kind = i < c.fields.size() ? c.fields[i].kind : 'i';
    if (kind == 'v') {
      b.AddOffset(at, lists[i]);
    } else if (kind == 'f') {
      b.AddElement<float>(at, values[i], values[i] + 1);
    } else if (kind == 'b') {
      b.AddElement<std::int8_t>(at, static_cast<std::int8_t>(values[i]), static_cast<std::int8_t>(values[i] + 1));
    } else {
      b.AddElement<std::int32_t>(at, static_cast<std::int32_t>(values[i]), static_cast<std::int32_t>(values[i] + 1));
    }
  }
  const flatbuffers::Offset<void> options(b.EndTable(start));
  const auto op = tfl::CreateOperator(b, 0, b.CreateVector(inputs), b.CreateVector(outputs),
                                      static_cast<tfl::BuiltinOptions>(c.type), options);
  const auto code =
      tfl::CreateOperatorCode(b, static_cast<std::int8_t>(std::min(static_cast<int>(c.op), 127)), 0, 1, c.op);
  const auto graph = tfl::CreateSubGraph(b, b.CreateVector(tensors), b.CreateVector(given), b.CreateVector(outputs),
                                         b.CreateVector(&op, 1));
  const auto codes = b.CreateVector(&code, 1);
  const auto graphs = b.CreateVector(&graph, 1);
  tfl::FinishModelBuffer(b, tfl::CreateModel(b, 3, codes, graphs, 0, b.CreateVector(buffers)));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

/// All that the reader makes of a file.
std::string read(const std::string& file) {
  std::vector<std::uint64_t> aligned((file.size() + 15) / 8);
  std::memcpy(aligned.data(), file.data(), file.size());
  const auto graph = convert::read_tflite(std::as_bytes(std::span(aligned)).first(file.size()), {});
  if (!graph.ok()) return "error: " + graph.status().message();
  std::ostringstream out;
  for (const convert::OnnxNode& node : graph->nodes) {
    out << node.op << '(';
    for (const std::string& input : node.inputs) out << input << ' ';
    out << ") -> ";
    for (const std::string& output : node.outputs) out << output << ' ';
    for (const auto& [name, attr] : node.attrs) {
      out << name << '=' << attr.integer << ' ' << attr.number << ' ' << attr.text;
      for (const std::int64_t number : attr.integers) out << ',' << number;
      out << ' ';
    }
    if (!node.refusal.empty()) out << "refused: " << node.refusal;
    out << '\n';
  }
  for (const convert::OnnxInitializer& one : graph->initializers) {
    out << one.name << ':';
    if (one.tensor == nullptr) continue;
    for (const float number : one.tensor->floats) out << ' ' << number;
    for (const std::int64_t number : one.tensor->ints) out << ' ' << number;
    out << '\n';
  }
  return out.str();
}

TEST(ConvertTfliteOptions, EveryFieldIsReadRefusedOrKnownToBeWithoutEffect) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(tfl::EnumNameBuiltinOperator(c.op));
    std::vector<float> base;
    for (const Field& field : c.fields) base.push_back(field.base);
    const std::string plain = read(file_of(c, base));
    EXPECT_EQ(plain.find("refused"), std::string::npos) << plain;
    EXPECT_EQ(plain.find("error"), std::string::npos) << plain;
    for (std::size_t i = 0; i < c.fields.size(); ++i) {
      std::vector<float> changed = base;
      changed[i] = c.fields[i].other;
      EXPECT_EQ(read(file_of(c, changed)) == plain, c.fields[i].harmless) << "field " << i << "\n" << plain;
    }
    std::vector<float> more = base;
    more.push_back(7);
    EXPECT_NE(read(file_of(c, more)).find("have field " + std::to_string(c.fields.size()) + ", which is not supported"),
              std::string::npos);
    Case other = c;
    other.type = 200;
    EXPECT_NE(read(file_of(other, {7})).find("its options are number 200 of BuiltinOptions, not "), std::string::npos);
  }
}

TEST(ConvertTfliteOptions, OperatorsWithoutOptionsTakeNone) {
  std::set<B> known = {B::CUSTOM};
  for (const Case& c : cases()) known.insert(c.op);
  for (const convert::TfliteOp* table : {convert::kTfliteMaths, convert::kTfliteMoves, convert::kTfliteImages}) {
    for (const convert::TfliteOp* entry = table; entry->translate != nullptr; ++entry) {
      if (known.contains(entry->op)) continue;
      const Case c{entry->op, 33, {"2,3"}, {}};
      EXPECT_NE(read(file_of(c, {7})).find("its options are number 33 of BuiltinOptions, but it has none"),
                std::string::npos)
          << tfl::EnumNameBuiltinOperator(entry->op);
    }
  }
}

TEST(ConvertTfliteOptions, DoublesBeyondFloat32AreRefusedByName) {
  TfliteWriter w;
  const int in = w.tensor("x", {1}), out = w.tensor("y", {1});
  const int big = w.constant("w", {1}, tfl::TensorType::FLOAT64, std::vector<double>{1e39});
  w.op(tfl::BuiltinOperator::MUL, {in, big}, {out}, tfl::MulOptionsT{});
  const std::string file = w.file({in}, {out});
  const auto result = tflite_run::converted(file);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("\"w\" cannot be used: it holds 1e+39, which is beyond the range of float32."),
            std::string::npos)
      << result.status().message();
}

}  // namespace
}  // namespace graft::test::convert_tflite_options_test
